// The public names, and all others that the command line, the benches and tests use. They are no
// part of the package's interface: they may change with any version.

export * from "./index.ts";

// A cluster, and what it runs ----
export type { DppWorkerOptions } from "./actors/client/dpp-worker.ts";
export type { HostRecord } from "./actors/host/membership.ts";
export type { LogRecord } from "./actors/client/run.ts";
export type { DrainedReader, NamedShard, RunLine, RunSummary } from "./actors/jobs/job-api.ts";
export type { ConnectionOptions } from "./actors/client/connect.ts";
export type { IncidentRecord } from "./actors/run-state/incident-record.ts";
export type { CutRecord, RepairedTable, Staleness } from "./actors/run-state/run-result.ts";
export type { Incident } from "./actors/runtime/incident.ts";
export type { ReaderReport } from "./actors/host/reader-report.ts";
export type { ShardPart, ShardReport } from "./actors/host/shard.ts";
export type { CacheReport, TableColumn, TierReport } from "./actors/host/tier-report.ts";
export type { ClusterReport, IncidentReport, RunReport } from "./actors/observe/cluster-report.ts";
export type {
  ActorReport,
  CreditReport,
  MailboxReport,
  ProcessReport,
} from "./actors/observe/process-report.ts";
export type { Wait, WaitsFor } from "./actors/runtime/wait-graph.ts";
export type { LogOptions } from "./actors/observe/process-log.ts";
export type { LogLevel } from "./src/ports/log.ts";
export type { RunLogPage } from "./storage/cluster/run-log.ts";
export type { Exporter } from "./actors/client/exporter.ts";
export type {
  RunTimes,
  SplitReading,
  StepTimes,
  TierRates,
} from "./src/training/meters/step-meter.ts";
export type { TableTiers, TierExpectation } from "./src/training/planning/tier-advice.ts";
export type { MissPoint } from "./src/planner/cost/miss-curve.ts";

// A job, as plain data ----
export { type Sweep, type SweptJob, sweepOf, sweptJobsOf } from "./src/job/sweep.ts";
export { type TransformedRow, transformedRows } from "./src/job/transformed-rows.ts";
export type { ModelSize } from "./src/model/model-size.ts";

// A model of the user's own, in a module that a job names ----
export type { DefinedModel, ModelFeatures } from "./src/model/custom/define-model.ts";

// A trained model ----
export type { LoadOptions } from "./storage/model/load-model.ts";
export type { EvaluateOptions } from "./storage/model/model.ts";
export type {
  FeatureImportance,
  ImportanceOptions,
} from "./storage/model/evaluation/feature-importance.ts";
export type { ImportanceReport } from "./storage/model/evaluation/feature-importance.ts";
export type {
  ColumnSlices,
  Slice,
  SliceOptions,
} from "./storage/model/evaluation/slice-metrics.ts";
export type { Calibration, StoredCalibration } from "./storage/model/calibration.ts";
export type { CalibrateOptions, CalibrateReport } from "./storage/model/calibrate-model.ts";
export type { CalibrationChoice } from "./storage/model/find-calibration.ts";
export type { PredictFileOptions, PredictReport } from "./storage/model/predict-report.ts";
export type { ModelExportOptions, ModelExportReport } from "./storage/exports/export-model.ts";
export type { ModelFileProof } from "./storage/exports/verify-model-file.ts";
export type { DeltaOptions, DeltaReport } from "./storage/serving/export-delta.ts";
export type { DeltaVersion } from "./storage/serving/delta-file.ts";
export type { Ranked, RankOptions, Scored } from "./storage/serving/served-model.ts";
export type { ServedVersion, ServeOptions, TableOnDisk } from "./storage/serving/served-model.ts";
export type { RowCounts } from "./storage/serving/tiered-table.ts";
export { serverJsonSchema, type ServerOptions } from "./actors/serving/models/server-options.ts";
export type { Response as ModelResponse } from "./actors/serving/models/front.ts";
export type { ModelImportOptions, ModelImportReport } from "./storage/imports/import-model.ts";
export type { EncodedBatch } from "./src/data/batch-rows.ts";
export type { RecordColumn, RecordValue, SampleRecord } from "./src/data/records.ts";

// Tables of a checkpoint, as files and from files ----
export type { ExportOptions, ExportReport } from "./storage/table-files/export-table.ts";
export type { ImportOptions, ImportReport } from "./storage/table-files/import-table.ts";
export type {
  InspectOptions,
  TableReport,
  TablesReport,
} from "./storage/table-files/inspect-tables.ts";
export type { TableIdsOptions, TableIdsReport } from "./storage/table-files/table-ids.ts";
export type { ProgressOptions } from "./storage/disk/progress.ts";

// Tables of Parquet files ----
export type {
  CompactedPartition,
  CompactOptions,
  CompactReport,
} from "./storage/warehouse/compact-warehouse.ts";
export type { SessionOptions, SessionReport } from "./storage/sessions/cluster-sessions.ts";
export type { WriteOptions, WriteReport } from "./storage/warehouse/write-warehouse.ts";
export type {
  ColumnReport,
  PartitionReport,
  ReadPlanReport,
  WarehouseReport,
} from "./storage/warehouse/inspect-warehouse.ts";

// Streams of messages, joined into such tables ----
export { assignRoles } from "./storage/first-job/column-roles.ts";
export type { AssignedColumn, ColumnRole, RoleOptions } from "./storage/first-job/column-roles.ts";
export { profileColumns } from "./storage/first-job/profile-columns.ts";
export type { DataProfile, ProfileOptions } from "./storage/first-job/profile-columns.ts";
export type { ColumnProfile } from "./storage/first-job/column-tally.ts";
export { firstJobOf } from "./storage/first-job/write-first-job.ts";
export type { FirstJob, FirstJobOptions } from "./storage/first-job/write-first-job.ts";
export type { IngestOptions } from "./storage/ingest/ingest-nats.ts";
export type { IngestProgress, IngestReport } from "./storage/ingest/ingest.ts";
export type { IngestCounts } from "./storage/ingest/position.ts";
export type { BadMessage } from "./storage/ingest/quarantine.ts";

// The checkpoints of a directory ----
export type { HistoryFigures, HistoryPoint } from "./storage/checkpoints/run-history.ts";
export type { CheckpointList, CheckpointRecord } from "./storage/checkpoints/list-checkpoints.ts";
export type {
  VerifiedCheckpoint,
  VerifyOptions,
  VerifyReport,
} from "./storage/checkpoints/verify-checkpoints.ts";
export type {
  CheckpointDifference,
  DiffOptions,
  TableDifference,
} from "./storage/checkpoints/diff-checkpoints.ts";
export { planRestore, type RestoreReport } from "./storage/checkpoints/restore-checkpoint.ts";
export type { ProofLeaf, RunProof, VerifyRunOptions } from "./actors/verify/verify-run.ts";
export type { Damage, Descent } from "./storage/checkpoint-store/checkpoint-store.ts";

// The binary caches of data ----
export type { FeatureStatistics } from "./src/data/cache/feature-statistics.ts";
export {
  type CacheChoice,
  type CachedSource,
  type CacheList,
  type CacheRecord,
  type CacheRemoval,
  listCaches,
  removeCaches,
} from "./src/data/cache/list-caches.ts";

// Metrics ----
export type { ThresholdMetrics } from "./src/training/loop/metrics.ts";

// A plan: which shard goes where, and why ----
export type { CalibrationOptions } from "./actors/calibration/calibrate.ts";
export {
  type KnownMachine,
  machineConstants,
  type MachineConstantsOptions,
  measuredDevices,
} from "./actors/calibration/machine-constants.ts";
export { type TrialOptions, tryJob } from "./actors/calibration/try-job.ts";
export { chooseDevices, type DeviceChoice } from "./src/training/planning/choose-devices.ts";
export type { CountedStatistics } from "./src/training/planning/counted-statistics.ts";
export {
  type Measured,
  type MeasureOptions,
  measureCosts,
} from "./actors/cost-networks/measure-costs.ts";
export type {
  CostTrainingOptions,
  TrainedNetworks,
} from "./actors/cost-networks/train-cost-networks.ts";
export type { TableReasons } from "./src/training/planning/explain-plan.ts";
export type { CostNetworks } from "./src/planner/learned/cost-networks.ts";
export type { PlacementPolicy, PolicyMethod } from "./src/planner/policies/placement-policy.ts";
export { type PolicyTrainingOptions, trainPolicy } from "./actors/cost-networks/train-policy.ts";
export { type ReadPolicy, readPolicy, writePolicy } from "./storage/cost-networks/policy-file.ts";
export type { LearnedPlan, LearnedSearch } from "./src/planner/learned/beam-search.ts";
export {
  type ReadCostNetworks,
  readCostNetworks,
  writeCostNetworks,
} from "./storage/cost-networks/cost-networks-file.ts";
export type { PlanOptions } from "./src/training/planning/plan-job.ts";
export { type Paused, planningJob } from "./src/training/planning/plan-job.ts";
export type { PlanReport } from "./src/training/planning/run-plan.ts";
export type { PlannedTiers, RowShares } from "./src/planner/table-tiers.ts";
export type { MachineConstants } from "./src/planner/cost/constants.ts";
export type { Plan, PlacedShard, Scheme } from "./src/planner/shards.ts";
export { type Stage, stages } from "./src/planner/cost/cost.ts";

// Errors: compare `code`, never the message ----
export * from "./src/errors/errors.ts";

// Chaos: ways to break a cluster, and the oracle that says whether it mattered ----
export type { BreakableLauncher, CommandFault } from "./chaos/faults/breakable-launcher.ts";
export type { ThreadFault } from "./chaos/faults/breaking-cells.ts";
export type { Target } from "./chaos/faults/kill-at.ts";
export type { Verdict } from "./chaos/trials/oracle.ts";
export type { ChaosOptions, MomentOptions } from "./chaos/chaos.ts";
export type {
  Fault,
  FaultKind,
  FaultOptions,
  Schedule,
  ScheduleOptions,
} from "./chaos/faults/schedule.ts";
export type { TrialVerdict, Recovery, ReferenceRun } from "./chaos/trials/verdict.ts";
export type { Trial } from "./chaos/trials/trial.ts";
export type { FaultOutcome, FaultedRunOptions } from "./chaos/trials/faulted-run.ts";
export {
  type ChaosFigures,
  figuresOf,
  type LossFigures,
  type Spread,
} from "./chaos/trials/figures.ts";
export type { SoakOptions } from "./chaos/trials/soak.ts";
export type { EpochLedger, Stretch } from "./storage/checkpoints/sample-ledger.ts";

// Simulation: whole clusters in one thread and virtual time ----
export type { CrashKind } from "./chaos/simulation/crash-points.ts";
export type {
  FaultKind as SimulatedFaultKind,
  Scenario,
  SimulatedFault,
} from "./chaos/simulation/scenario.ts";
export type { ScenariosOptions, SeedsOptions, SeedsSummary } from "./chaos/simulation/seeds.ts";
export type {
  Failure as SimulationFailure,
  SimulationVerdict,
} from "./chaos/simulation/simulate.ts";

// Before a run ----
export type { JobDiagnosis } from "./actors/doctor/doctor-job.ts";
export type { Diagnosis, DoctorOptions } from "./actors/doctor/doctor.ts";
export type { Check } from "./actors/doctor/doctor-checks.ts";
export type { DeadlineLine } from "./src/ports/deadlines.ts";

// What the command line is made of, besides ----
export type { NatsConfigOptions } from "./src/wire/tenancy/nats-config.ts";
export type { Tenants } from "./src/wire/tenancy/tenants.ts";
export { type Broker, type BrokerSettings, startBroker } from "./src/wire/broker/broker.ts";
export { type ClickLinesOptions, writeClickLines } from "./src/data/synthetic/click-lines.ts";
export { type SessionLinesOptions, writeSessionLines } from "./src/data/synthetic/session-lines.ts";
export { type SyntheticTsvOptions, writeSyntheticTsv } from "./src/data/synthetic/synthetic-tsv.ts";
export type { GeneratedReport } from "./src/data/synthetic/synthetic.ts";
