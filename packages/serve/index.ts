// The public interface of packages/serve: other code may import from this file only.

export { type DeltaReport, exportDelta } from "./model/export-delta.ts";
export { ServedModel } from "./model/served-model.ts";
export { type PredictReport, predictFile } from "./predict/predict-file.ts";
export { type ServerOptions, serverJsonSchema } from "./server/models/server-options.ts";
export { type ModelServer, serve } from "./server/serve.ts";
