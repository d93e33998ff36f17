// The public interface of packages/ingest: other code may import from this file only.

export {
  type AssignedColumn,
  assignRoles,
  type ColumnRole,
  type RoleOptions,
} from "./first-job/column-roles.ts";
export type { ColumnProfile } from "./first-job/column-tally.ts";
export {
  type DataProfile,
  type ProfileOptions,
  profileColumns,
} from "./first-job/profile-columns.ts";
export { type FirstJob, type FirstJobOptions, firstJobOf } from "./first-job/write-first-job.ts";
export {
  clusterSessions,
  type SessionOptions,
  type SessionReport,
} from "./sessions/cluster-sessions.ts";
export type { IngestProgress, IngestReport } from "./streams/ingest.ts";
export { type IngestOptions, ingest } from "./streams/ingest-nats.ts";
export { logShard, logShardOf } from "./streams/log-shards.ts";
export type { IngestCounts } from "./streams/position.ts";
export type { BadMessage } from "./streams/quarantine.ts";
export {
  type CompactedPartition,
  type CompactOptions,
  type CompactReport,
  compactWarehouse,
} from "./warehouse/compact-warehouse.ts";
export {
  type ColumnReport,
  inspectWarehouse,
  type PartitionReport,
  type ReadPlanReport,
  type WarehouseReport,
} from "./warehouse/inspect-warehouse.ts";
export {
  type WriteOptions,
  type WriteReport,
  writeWarehouse,
} from "./warehouse/write-warehouse.ts";
