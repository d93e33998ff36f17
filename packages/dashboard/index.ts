// The public interface of packages/dashboard: other code may import from this file only.

export { dashboard } from "./server/dashboard.ts";
export { type Exporter, openExporter } from "./server/exporter.ts";
export { reportOfDirectory, reportOfRun } from "./server/report-data.ts";
