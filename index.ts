// The public names of Osiris, in sections; docs/api.md says what each is for. Nothing else is
// public: internal.ts names the file of each, and has the names that only Osiris itself uses.
//
// To read the code, follow one job from `Cluster.submit` to a kernel: docs/architecture.md, "The
// walk", names twelve files and the message at each jump.

// A cluster, and what it runs ----
export {
  Cluster,
  type ClusterOptions,
  DppWorker,
  Host,
  type HostOptions,
  Client,
  Run,
  connect,
  type RunEvent,
  type RunStatus,
  type RunResult,
  readRunLog,
} from "./internal.ts";
export {
  dashboard,
  reportOfDirectory,
  reportOfRun,
  openExporter,
} from "./packages/dashboard/index.ts";

// A job, as plain data ----
export {
  type JobOptions,
  type JobSpec,
  resolveJob,
  jobJsonSchema,
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
  dlrm,
  lr,
  fm,
  wideAndDeep,
  deepFm,
  dcnV2,
  gdcn,
  autoInt,
  xDeepFm,
  maskNet,
  finalMlp,
  finalNet,
  din,
  bst,
  wukong,
  sharedBottom,
  mmoe,
  ple,
  esmm,
  custom,
  modelSize,
} from "./internal.ts";

// A model of the user's own, in a module that a job names ----
export {
  blocks,
  defineModel,
  type ModelDefinition,
  type ModelGraph,
  type GraphValue,
  type TableOptions,
  type DataOptions,
  arrow,
  criteo,
  csv,
  jsonl,
  parquet,
  synthetic,
} from "./internal.ts";

// A trained model ----
export {
  allowModels,
  loadModel,
  type EvaluationData,
  Model,
  featureImportance,
  sliceMetrics,
  calibrateModel,
  removeCalibration,
} from "./internal.ts";
export {
  predictFile,
  exportDelta,
  ServedModel,
  type ModelServer,
  serve,
} from "./packages/serve/index.ts";
export { exportModel, importModel } from "./packages/formats/index.ts";

// Tables of a checkpoint, as files and from files ----
export {
  exportTable,
  importTable,
  inspectTables,
  jobOfCheckpoint,
  tableIds,
} from "./packages/formats/index.ts";

// Tables of Parquet files ----
export {
  compactWarehouse,
  clusterSessions,
  writeWarehouse,
  inspectWarehouse,
} from "./packages/ingest/index.ts";

// Streams of messages, joined into such tables ----
export { ingest, logShard, logShardOf } from "./packages/ingest/index.ts";

// The checkpoints of a directory ----
export {
  historyCsv,
  runHistory,
  listCheckpoints,
  verifyCheckpoints,
  diffCheckpoints,
  restoreCheckpoint,
  verifyRun,
} from "./internal.ts";

// Metrics ----
export { evaluate, type Metrics } from "./internal.ts";

// A plan: which shard goes where, and why ----
export { countedStatistics, type JobPlan, planJob, schemes } from "./internal.ts";
export { trainCostNetworks } from "./packages/sharding/index.ts";
export { calibrate, simulateCluster } from "./packages/what-if/index.ts";

// Errors: compare `code`, never the message ----
export { RemoteError, TrainingError } from "./internal.ts";

// Chaos: ways to break a cluster, and the oracle that says whether it mattered ----
export {
  breakableLauncher,
  killAt,
  throwIn,
  compareWithReference,
  Chaos,
  chaos,
  soak,
} from "./internal.ts";

// Simulation: whole clusters in one thread and virtual time ----
export { drawScenario, simulate } from "./internal.ts";

// Before a run ----
export { checkJob, diagnose } from "./internal.ts";
