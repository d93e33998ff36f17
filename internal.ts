// Every name that the command line, the benches, the tests and the packages import of the core, by
// file. index.ts picks the public names; the others may change with any version.

// A cluster, and what it runs ----
export { Cluster } from "./actors/cluster/cluster.ts";
export type { ClusterOptions } from "./actors/cluster/cluster-options.ts";
export { DppWorker, type DppWorkerOptions } from "./actors/client/dpp-worker.ts";
export { Host, type HostOptions } from "./actors/cluster/host-process.ts";
export { Client } from "./actors/client/client.ts";
export { Run, type LogRecord } from "./actors/client/run.ts";
export { connect, type ConnectionOptions } from "./actors/client/connect.ts";
export { dashboard } from "./packages/dashboard/server/dashboard.ts";
export { reportOfDirectory, reportOfRun } from "./packages/dashboard/server/report-data.ts";
export type { RunEvent, RunStatus } from "./actors/run/state/run-events.ts";
export type {
  RunResult,
  CutRecord,
  RepairedTable,
  Staleness,
} from "./actors/run/state/run-result.ts";
export { readRunLog, type RunLogPage } from "./storage/cluster/run-log.ts";
export { openExporter, type Exporter } from "./packages/dashboard/server/exporter.ts";
export type { HostRecord } from "./actors/host/membership.ts";
export type { DrainedReader, NamedShard, RunLine, RunSummary } from "./actors/jobs/job-api.ts";
export type { IncidentRecord } from "./actors/run/state/incident-record.ts";
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
export type {
  RunTimes,
  SplitReading,
  StepTimes,
  TierRates,
} from "./src/training/meters/step-meter.ts";
export type { TableTiers, TierExpectation } from "./src/training/planning/tier-advice.ts";
export type { MissPoint } from "./src/planner/cost/miss-curve.ts";

// A job, as plain data ----
export * from "./src/model/model-builders.ts"; // dlrm, wukong, dcnV2: a function for each kind.
export { type JobOptions, type JobSpec, resolveJob } from "./src/job/job.ts";
export { jobJsonSchema } from "./src/job/job-json-schema.ts";
export {
  adagrad,
  adam,
  adamW,
  ftrl,
  lamb,
  type ModelOptions,
  partialRowWiseAdam,
  partialRowWiseLamb,
  rowWiseAdagrad,
  sgd,
} from "./src/model/options.ts";
export { modelSize, type ModelSize } from "./src/model/model-size.ts";
export { type Sweep, type SweptJob, sweepOf, sweptJobsOf } from "./src/job/sweep.ts";
export { type TransformedRow, transformedRows } from "./src/job/transformed-rows.ts";

// A model of the user's own, in a module that a job names ----
export * as blocks from "./src/model/custom/all-blocks.ts";
export {
  defineModel,
  type ModelDefinition,
  type DefinedModel,
  type ModelFeatures,
} from "./src/model/custom/define-model.ts";
export type { GraphBuilder as ModelGraph, Value as GraphValue } from "./src/model/graph/graph.ts";
export type { TableOptions } from "./src/embedding/tables/options.ts";
export type { DataOptions } from "./src/data/options.ts";
export { arrow, criteo, csv, jsonl, parquet, synthetic } from "./src/data/sources.ts";

// A trained model ----
export { allowModels } from "./src/model/custom/allowed-modules.ts";
export { loadModel, type LoadOptions } from "./storage/model/load-model.ts";
export type { EvaluationData } from "./src/job/evaluation-options.ts";
export { Model, type EvaluateOptions } from "./storage/model/model.ts";
export {
  featureImportance,
  type FeatureImportance,
  type ImportanceOptions,
  type ImportanceReport,
} from "./storage/model/evaluation/feature-importance.ts";
export {
  sliceMetrics,
  type ColumnSlices,
  type Slice,
  type SliceOptions,
} from "./storage/model/evaluation/slice-metrics.ts";
export {
  calibrateModel,
  removeCalibration,
  type CalibrateOptions,
  type CalibrateReport,
} from "./storage/model/calibrate-model.ts";
export { predictFile } from "./packages/serve/predict/predict-file.ts";
export {
  exportModel,
  type ModelExportOptions,
  type ModelExportReport,
} from "./packages/formats/exports/export-model.ts";
export {
  verifyModelFile,
  type ModelFileProof,
} from "./packages/formats/exports/verify-model-file.ts";
export {
  exportDelta,
  type DeltaOptions,
  type DeltaReport,
} from "./packages/serve/model/export-delta.ts";
export {
  ServedModel,
  type Ranked,
  type RankOptions,
  type Scored,
  type ServedVersion,
  type ServeOptions,
  type TableOnDisk,
} from "./packages/serve/model/served-model.ts";
export { type ModelServer, serve } from "./packages/serve/server/serve.ts";
export {
  importModel,
  type ModelImportOptions,
  type ModelImportReport,
} from "./packages/formats/imports/import-model.ts";
export type { Calibration, StoredCalibration } from "./storage/model/calibration.ts";
export type { CalibrationChoice } from "./storage/model/find-calibration.ts";
export type { PredictFileOptions, PredictReport } from "./packages/serve/predict/predict-report.ts";
export type { DeltaVersion } from "./packages/serve/model/delta-file.ts";
export type { RowCounts } from "./packages/serve/model/tiered-table.ts";
export {
  serverJsonSchema,
  type ServerOptions,
} from "./packages/serve/server/models/server-options.ts";
export type { Response as ModelResponse } from "./packages/serve/server/models/front.ts";
export type { EncodedBatch } from "./src/data/batch-rows.ts";
export type { RecordColumn, RecordValue, SampleRecord } from "./src/data/records.ts";

// Tables of a checkpoint, as files and from files ----
export {
  exportTable,
  type ExportOptions,
  type ExportReport,
} from "./packages/formats/tables/export-table.ts";
export {
  importTable,
  type ImportOptions,
  type ImportReport,
} from "./packages/formats/tables/import-table.ts";
export {
  inspectTables,
  type InspectOptions,
  type TableReport,
  type TablesReport,
} from "./packages/formats/tables/inspect-tables.ts";
export {
  jobOfCheckpoint,
  tableIds,
  type TableIdsOptions,
  type TableIdsReport,
} from "./packages/formats/tables/table-ids.ts";
export type { ProgressOptions } from "./storage/disk/progress.ts";

// Tables of Parquet files ----
export {
  compactWarehouse,
  type CompactedPartition,
  type CompactOptions,
  type CompactReport,
} from "./packages/ingest/warehouse/compact-warehouse.ts";
export {
  clusterSessions,
  type SessionOptions,
  type SessionReport,
} from "./packages/ingest/sessions/cluster-sessions.ts";
export {
  writeWarehouse,
  type WriteOptions,
  type WriteReport,
} from "./packages/ingest/warehouse/write-warehouse.ts";
export {
  inspectWarehouse,
  type ColumnReport,
  type PartitionReport,
  type ReadPlanReport,
  type WarehouseReport,
} from "./packages/ingest/warehouse/inspect-warehouse.ts";

// Streams of messages, joined into such tables ----
export { ingest, type IngestOptions } from "./packages/ingest/streams/ingest-nats.ts";
export { logShard, logShardOf } from "./packages/ingest/streams/log-shards.ts";
export {
  assignRoles,
  type AssignedColumn,
  type ColumnRole,
  type RoleOptions,
} from "./packages/ingest/first-job/column-roles.ts";
export {
  profileColumns,
  type DataProfile,
  type ProfileOptions,
} from "./packages/ingest/first-job/profile-columns.ts";
export type { ColumnProfile } from "./packages/ingest/first-job/column-tally.ts";
export {
  firstJobOf,
  type FirstJob,
  type FirstJobOptions,
} from "./packages/ingest/first-job/write-first-job.ts";
export type { IngestProgress, IngestReport } from "./packages/ingest/streams/ingest.ts";
export type { IngestCounts } from "./packages/ingest/streams/position.ts";
export type { BadMessage } from "./packages/ingest/streams/quarantine.ts";

// The checkpoints of a directory ----
export {
  historyCsv,
  runHistory,
  type HistoryFigures,
  type HistoryPoint,
} from "./storage/checkpoints/run-history.ts";
export {
  listCheckpoints,
  type CheckpointList,
  type CheckpointRecord,
} from "./storage/checkpoints/list-checkpoints.ts";
export {
  verifyCheckpoints,
  type VerifiedCheckpoint,
  type VerifyOptions,
  type VerifyReport,
} from "./storage/checkpoints/verify-checkpoints.ts";
export {
  diffCheckpoints,
  type CheckpointDifference,
  type DiffOptions,
  type TableDifference,
} from "./storage/checkpoints/diff-checkpoints.ts";
export {
  restoreCheckpoint,
  planRestore,
  type RestoreReport,
} from "./storage/checkpoints/restore-checkpoint.ts";
export {
  verifyRun,
  type ProofLeaf,
  type RunProof,
  type VerifyRunOptions,
} from "./actors/verify/verify-run.ts";
export type { Damage, Descent } from "./storage/checkpoints/store/checkpoint-store.ts";

// Metrics ----
export { evaluate, type Metrics, type ThresholdMetrics } from "./src/training/loop/metrics.ts";

// A plan: which shard goes where, and why ----
export { calibrate, type CalibrationOptions } from "./actors/calibration/calibrate.ts";
export {
  countedStatistics,
  type CountedStatistics,
} from "./src/training/planning/counted-statistics.ts";
export {
  trainCostNetworks,
  type CostTrainingOptions,
  type TrainedNetworks,
} from "./packages/sharding/training/train-cost-networks.ts";
export {
  type JobPlan,
  planJob,
  type PlanOptions,
  type PlanSource,
  planningJob,
} from "./src/training/planning/plan-job.ts";
export { learnedPlans } from "./packages/sharding/plans/learned-plan.ts";
export { type Paused, untilDone } from "./src/planner/paused.ts";
export { schemes, type Plan, type PlacedShard, type Scheme } from "./src/planner/shards.ts";
export {
  type KnownMachine,
  machineConstants,
  type MachineConstantsOptions,
  measuredDevices,
} from "./actors/calibration/machine-constants.ts";
export { type TrialOptions, tryJob } from "./actors/calibration/try-job.ts";
export { chooseDevices, type DeviceChoice } from "./src/training/planning/choose-devices.ts";
export {
  type Measured,
  type MeasureOptions,
  measureCosts,
} from "./packages/sharding/training/measure-costs.ts";
export type { TableReasons } from "./src/training/planning/explain-plan.ts";
export type { CostNetworks } from "./packages/sharding/search/cost-networks.ts";
export type {
  PlacementPolicy,
  PolicyMethod,
} from "./packages/sharding/policies/placement-policy.ts";
export {
  type PolicyTrainingOptions,
  trainPolicy,
} from "./packages/sharding/training/train-policy.ts";
export { type ReadPolicy, readPolicy, writePolicy } from "./packages/sharding/files/policy-file.ts";
export type { LearnedPlan, LearnedSearch } from "./packages/sharding/search/beam-search.ts";
export {
  type ReadCostNetworks,
  readCostNetworks,
  writeCostNetworks,
} from "./packages/sharding/files/cost-networks-file.ts";
export type { PlanReport } from "./src/training/planning/run-plan.ts";
export type { PlannedTiers, RowShares } from "./src/planner/table-tiers.ts";
export type { MachineConstants } from "./src/planner/cost/constants.ts";
export { type Stage, stages } from "./src/planner/cost/cost.ts";

// Errors: compare `code`, never the message ----
export * from "./src/errors/errors.ts";

// Chaos: ways to break a cluster, and the oracle that says whether it mattered ----
export {
  breakableLauncher,
  type BreakableLauncher,
  type CommandFault,
} from "./chaos/faults/breakable-launcher.ts";
export { killAt, throwIn, type Target } from "./chaos/faults/kill-at.ts";
export { compareWithReference, type Verdict } from "./chaos/trials/oracle.ts";
export { Chaos, chaos, type ChaosOptions, type MomentOptions } from "./chaos/chaos.ts";
export { soak, type SoakOptions } from "./chaos/trials/soak.ts";
export type { ThreadFault } from "./chaos/faults/breaking-cells.ts";
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
export type { EpochLedger, Stretch } from "./storage/checkpoints/sample-ledger.ts";

// Simulation: whole clusters in one thread and virtual time ----
export {
  drawScenario,
  type FaultKind as SimulatedFaultKind,
  type Scenario,
  type SimulatedFault,
} from "./chaos/simulation/scenario.ts";
export {
  simulate,
  type Failure as SimulationFailure,
  type SimulationVerdict,
} from "./chaos/simulation/simulate.ts";
export type { CrashKind } from "./chaos/simulation/crash-points.ts";
export type { ScenariosOptions, SeedsOptions, SeedsSummary } from "./chaos/simulation/seeds.ts";

// Before a run ----
export { checkJob, type JobDiagnosis } from "./actors/doctor/doctor-job.ts";
export { diagnose, type Diagnosis, type DoctorOptions } from "./actors/doctor/doctor.ts";
export type { Check } from "./actors/doctor/doctor-checks.ts";
export type { DeadlineLine } from "./src/ports/deadlines.ts";

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

// What the command line is made of, besides ----
export type { NatsConfigOptions } from "./src/wire/tenancy/nats-config.ts";
export type { Tenants } from "./src/wire/tenancy/tenants.ts";
export { type Broker, type BrokerSettings, startBroker } from "./src/wire/broker/broker.ts";
export { type ClickLinesOptions, writeClickLines } from "./src/data/synthetic/click-lines.ts";
export { type SessionLinesOptions, writeSessionLines } from "./src/data/synthetic/session-lines.ts";
export { type SyntheticTsvOptions, writeSyntheticTsv } from "./src/data/synthetic/synthetic-tsv.ts";
export type { GeneratedReport } from "./src/data/synthetic/synthetic.ts";
