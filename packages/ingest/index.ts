// The public interface of packages/ingest: other code may import from this file only.

export { assignRoles, type ColumnRole, type RoleOptions } from "./first-job/column-roles.ts";
export { type DataProfile, profileColumns } from "./first-job/profile-columns.ts";
export { type FirstJob, firstJobOf } from "./first-job/write-first-job.ts";
export { clusterSessions, type SessionReport } from "./sessions/cluster-sessions.ts";
export type { IngestReport } from "./streams/ingest.ts";
export { ingest } from "./streams/ingest-nats.ts";
export { logShard, logShardOf } from "./streams/log-shards.ts";
export { compactWarehouse } from "./warehouse/compact-warehouse.ts";
export {
  type ColumnReport,
  inspectWarehouse,
  type WarehouseReport,
} from "./warehouse/inspect-warehouse.ts";
export { writeWarehouse } from "./warehouse/write-warehouse.ts";
