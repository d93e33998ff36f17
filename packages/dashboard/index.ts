// The door of packages/dashboard: all that other code may import of it.

export { dashboard } from "./server/dashboard.ts";
export { type Exporter, openExporter } from "./server/exporter.ts";
export { reportOfDirectory, reportOfRun } from "./server/report-data.ts";
