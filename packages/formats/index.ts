// The public interface of packages/formats: other code may import from this file only.

export {
  exportModel,
  type ModelExportOptions,
  type ModelExportReport,
} from "./exports/export-model.ts";
export {
  type DenseTensor,
  denseTensors,
  notesOf,
  openExported,
  servedDense,
} from "./exports/exported-model.ts";
export { writeSafetensors } from "./exports/safetensors-model.ts";
export type { WholeRows } from "./exports/whole-rows.ts";
export { importModel, type ModelImportReport } from "./imports/import-model.ts";
export { layOutTensors, readTensorHeader } from "./safetensors/safetensors-file.ts";
export { csvField } from "./tables/csv.ts";
export { exportTable } from "./tables/export-table.ts";
export { importTable } from "./tables/import-table.ts";
export { inspectTables, type TableReport, type TablesReport } from "./tables/inspect-tables.ts";
export { jobOfCheckpoint, tableIds } from "./tables/table-ids.ts";
