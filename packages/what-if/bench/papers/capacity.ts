// How model-F fits into memory (Neo, sections 4.1.3 and 4.4: arXiv 2104.05158): its bytes by the
// format of rows and the state of their optimizer, and whether the planner finds room for them in
// the memory of devices and hosts.

import {
  type JobPlan,
  type JobSpec,
  type PlacedShard,
  planJob,
  resolveJob,
  rowStateOf,
  weightBytes,
} from "../../../../internal.ts";
import { constantsOf, withCachesOf } from "../../hardware/constants-of.ts";
import type { ClusterDevices, Hardware } from "../../hardware/hardware.ts";
import { paperModel } from "../../papers/models.ts";

/** The formats and optimizers, each with about half of the bytes of the one before. */
export const capacitySteps = [
  { precision: "float32", optimizer: "adagrad" },
  { precision: "float32", optimizer: "rowWiseAdagrad" },
  { precision: "float16", optimizer: "rowWiseAdagrad" },
] as const;

export interface Capacity {
  readonly precision: string;
  readonly optimizer: string;
  /** Bytes of rows and of their optimizer's state. */
  readonly bytes: number;
  readonly found: JobPlan;
}

/**
 * Plans a model for these devices in each format. `rows`: the share of each table's rows, as for
 * fewer hosts than the paper's. Rows lie in the memory of devices and hosts alone: the paper counts
 * no disk.
 */
export function capacities(
  name: string,
  hardware: Hardware,
  devices: ClusterDevices,
  rows = 1,
): Capacity[] {
  const { disk: _, ...host } = hardware.host;
  const withoutDisk = { ...hardware, host };
  const constants = constantsOf(withoutDisk, devices);
  const options = paperModel(name, { devices: devices.hosts * devices.perHost, rows });
  return capacitySteps.map(({ precision, optimizer: kind }) => {
    const model = { ...options.model, table: { precision } };
    const job = resolveJob({ ...options, model, optimizer: { sparse: { kind } } });
    const cached = withCachesOf(job, withoutDisk, devices);
    const found = planJob(cached, { devices, constants, cache: true, relax: false });
    return { precision, optimizer: kind, bytes: bytesOf(job), found };
  });
}

function bytesOf({ model, optimizer }: JobSpec): number {
  const { perElement, perRow } = rowStateOf(optimizer.sparse);
  return model.tables.reduce((sum, { rows, dim, precision }) => {
    return sum + rows * (dim * (weightBytes(precision) + 4 * perElement) + 4 * perRow);
  }, 0);
}

/** Number of tables of a plan by scheme and tier, the largest number first. */
export function placesOf(shards: readonly PlacedShard[]): [place: string, tables: number][] {
  const places = new Map(shards.map(({ table, scheme, tier }) => [table, `${scheme}, ${tier}`]));
  const counts = new Map<string, number>();
  for (const place of places.values()) counts.set(place, (counts.get(place) ?? 0) + 1);
  return [...counts].sort(([a, more], [b, than]) => than - more || (a < b ? -1 : 1));
}
