// The front door: every public name of Osiris, in sections. Nothing else is public.
//
// Read the code from here: Cluster (actors/cluster.ts) ─▶ the coordinators (actors/) ─▶ a device's
// program (actors/device-program.ts) ─▶ one step (src/training/step.ts) ─▶ a kernel (src/kernels/).

// A cluster, and what it runs ----
export { Cluster, type ClusterOptions } from "./actors/cluster.ts";
export { Client, Run, type RunSummary } from "./actors/client.ts";
export type { CutRecord, RunEvent, RunResult, RunStatus } from "./actors/run-record.ts";
export type { Incident } from "./actors/incident.ts";

// A job, as plain data ----
export { type JobOptions, type JobSpec, resolveJob } from "./src/job.ts";
export {
  adagrad,
  adam,
  adamW,
  dlrm,
  ftrl,
  lamb,
  type ModelOptions,
  partialRowWiseAdam,
  partialRowWiseLamb,
  rowWiseAdagrad,
  sgd,
} from "./src/model/options.ts";
export type { TableOptions } from "./src/embedding/options.ts";
export { criteo, csv, type DataOptions, synthetic } from "./src/data/options.ts";

// Metrics ----
export { evaluate, type Metrics } from "./src/training/metrics.ts";

// Errors: compare `code`, never the message ----
export * from "./src/errors.ts";
