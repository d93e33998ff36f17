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
export {
  importModel,
  type ModelImportOptions,
  type ModelImportReport,
} from "./imports/import-model.ts";
export { layOutTensors, readTensorHeader } from "./safetensors/safetensors-file.ts";
export { csvField } from "./tables/csv.ts";
export { type ExportOptions, type ExportReport, exportTable } from "./tables/export-table.ts";
export { type ImportOptions, type ImportReport, importTable } from "./tables/import-table.ts";
export {
  type InspectOptions,
  inspectTables,
  type TableReport,
  type TablesReport,
} from "./tables/inspect-tables.ts";
export {
  jobOfCheckpoint,
  type TableIdsOptions,
  type TableIdsReport,
  tableIds,
} from "./tables/table-ids.ts";
