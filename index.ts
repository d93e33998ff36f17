// The public names of Osiris, in sections; docs/api.md says what each is for. Nothing else is public:
// the command line and the benches import ./internal.ts.
//
// To read the code, follow one job from `Cluster.submit` to a kernel: docs/architecture.md, "The
// walk", names twelve files and the message at each jump.

// A cluster, and what it runs ----
export { Cluster } from "./actors/cluster/cluster.ts";
export type { ClusterOptions } from "./actors/cluster/cluster-options.ts";
export { DppWorker } from "./actors/client/dpp-worker.ts";
export { Host, type HostOptions } from "./actors/cluster/host-process.ts";
export { Client } from "./actors/client/client.ts";
export { Run } from "./actors/client/run.ts";
export { connect } from "./actors/client/connect.ts";
export { reportOfDirectory, reportOfRun } from "./actors/dashboard/report-data.ts";
export type { RunEvent, RunStatus } from "./actors/run-state/run-events.ts";
export type { RunResult } from "./actors/run-state/run-result.ts";
export { readRunLog } from "./storage/cluster/run-log.ts";
export { openExporter } from "./actors/client/exporter.ts";

// A job, as plain data ----
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
export * from "./src/model/model-builders.ts"; // dlrm, wukong, dcnV2: a function for each kind.
export { modelSize } from "./src/model/model-size.ts";

// A model of the user's own, in a module that a job names ----
export * as blocks from "./src/model/custom/all-blocks.ts";
export { defineModel, type ModelDefinition } from "./src/model/custom/define-model.ts";
export type { GraphBuilder as ModelGraph, Value as GraphValue } from "./src/model/graph/graph.ts";
export type { TableOptions } from "./src/embedding/tables/options.ts";
export type { DataOptions } from "./src/data/options.ts";
export { arrow, criteo, csv, jsonl, parquet, synthetic } from "./src/data/sources.ts";

// A trained model ----
export { allowModels } from "./src/model/custom/allowed-modules.ts";
export { loadModel } from "./storage/model/load-model.ts";
export type { EvaluationData } from "./src/job/evaluation-options.ts";
export { Model } from "./storage/model/model.ts";
export { featureImportance } from "./storage/model/evaluation/feature-importance.ts";
export { sliceMetrics } from "./storage/model/evaluation/slice-metrics.ts";
export { calibrateModel, removeCalibration } from "./storage/model/calibrate-model.ts";
export { predictFile } from "./storage/model/predict-file.ts";
export { exportModel } from "./storage/exports/export-model.ts";
export { verifyModelFile } from "./storage/exports/verify-model-file.ts";
export { exportDelta } from "./storage/serving/export-delta.ts";
export { ServedModel } from "./storage/serving/served-model.ts";
export { type ModelServer, serve } from "./actors/serving/serve.ts";
export { importModel } from "./storage/imports/import-model.ts";

// Tables of a checkpoint, as files and from files ----
export { exportTable } from "./storage/table-files/export-table.ts";
export { importTable } from "./storage/table-files/import-table.ts";
export { inspectTables } from "./storage/table-files/inspect-tables.ts";
export { jobOfCheckpoint, tableIds } from "./storage/table-files/table-ids.ts";

// Tables of Parquet files ----
export { compactWarehouse } from "./storage/warehouse/compact-warehouse.ts";
export { clusterSessions } from "./storage/sessions/cluster-sessions.ts";
export { writeWarehouse } from "./storage/warehouse/write-warehouse.ts";
export { inspectWarehouse } from "./storage/warehouse/inspect-warehouse.ts";

// Streams of messages, joined into such tables ----
export { ingest } from "./storage/ingest/ingest-nats.ts";
export { logShard, logShardOf } from "./storage/ingest/log-shards.ts";

// The checkpoints of a directory ----
export { historyCsv, runHistory } from "./storage/checkpoints/run-history.ts";
export { listCheckpoints } from "./storage/checkpoints/list-checkpoints.ts";
export { verifyCheckpoints } from "./storage/checkpoints/verify-checkpoints.ts";
export { diffCheckpoints } from "./storage/checkpoints/diff-checkpoints.ts";
export { restoreCheckpoint } from "./storage/checkpoints/restore-checkpoint.ts";
export { verifyRun } from "./actors/verify/verify-run.ts";

// Metrics ----
export { evaluate, type Metrics } from "./src/training/loop/metrics.ts";

// A plan: which shard goes where, and why ----
export { calibrate } from "./actors/calibration/calibrate.ts";
export { countedStatistics } from "./src/training/planning/counted-statistics.ts";
export { trainCostNetworks } from "./actors/cost-networks/train-cost-networks.ts";
export { type JobPlan, planJob } from "./src/training/planning/plan-job.ts";
export { schemes } from "./src/planner/shards.ts";

// Errors: compare `code`, never the message ----
export { RemoteError, TrainingError } from "./src/errors/training-error.ts";

// Chaos: ways to break a cluster, and the oracle that says whether it mattered ----
export { breakableLauncher } from "./chaos/faults/breakable-launcher.ts";
export { killAt, throwIn } from "./chaos/faults/kill-at.ts";
export { compareWithReference } from "./chaos/trials/oracle.ts";
export { Chaos, chaos } from "./chaos/chaos.ts";
export { soak } from "./chaos/trials/soak.ts";

// Simulation: whole clusters in one thread and virtual time ----
export { drawScenario } from "./chaos/simulation/scenario.ts";
export { simulate } from "./chaos/simulation/simulate.ts";

// Before a run ----
export { checkJob } from "./actors/doctor/doctor-job.ts";
export { diagnose } from "./actors/doctor/doctor.ts";
