// The public interface of packages/serve: other code may import from this file only.

export type { DeltaVersion } from "./model/delta-file.ts";
export { type DeltaOptions, type DeltaReport, exportDelta } from "./model/export-delta.ts";
export {
  type Ranked,
  type RankOptions,
  type Scored,
  ServedModel,
  type ServedVersion,
  type ServeOptions,
} from "./model/served-model.ts";
export type { RowCounts, TableOnDisk } from "./model/tiered-table.ts";
export {
  type PredictFileOptions,
  type PredictReport,
  predictFile,
} from "./predict/predict-file.ts";
export type { Response } from "./server/models/request-router.ts";
export { type ServerOptions, serverJsonSchema } from "./server/models/server-options.ts";
export { type ModelServer, serve } from "./server/serve.ts";
