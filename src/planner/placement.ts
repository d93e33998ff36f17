// The default placement of a run without a plan: cuts every table as the job says, and places the
// parts greedily by their work per sample. The placement decides speed and memory, never a bit of
// the result (law 4). `osiris plan` finds better plans with a machine's constants (search.ts).

import { tileGroupsOf } from "./enumerate.ts";
import { partitionGreedily } from "./partition.ts";
import {
  type Devices,
  type Plan,
  type PlannedTable,
  type Scheme,
  type Tier,
  tileColumns,
} from "./shards.ts";

/** The fields of a table that a placement needs. */
export interface PlaceableTable extends Pick<PlannedTable, "name" | "rows" | "dim" | "rowBlocks"> {
  readonly scheme: Scheme;
  /** @default "memory" */
  readonly tier?: Tier;
  /** Work of a lookup and its update, per sample: columns times mean ids. */
  readonly cost: number;
}

/**
 * Returns a plan for these tables. Each table is cut as finely as its scheme and the devices allow,
 * or stays whole if the scheme cannot cut it. The most expensive part is placed first, each on the
 * least loaded device (partition.ts); ties go to the lower index.
 */
export function place(tables: readonly PlaceableTable[], devices: Devices): Plan {
  const cut = tables.map((table) => {
    const [way] = tileGroupsOf(devices, table, table.scheme).slice(-1);
    if (way !== undefined) return { table, scheme: table.scheme, way };
    const [whole = []] = tileGroupsOf(devices, table, "table-wise");
    return { table, scheme: "table-wise" as const, way: whole };
  });
  const groups = cut.flatMap(({ table, way }) =>
    way.map(({ level, tiles }) => ({
      level,
      parts: tiles.map((tile) => {
        const share = (tile.blocks / table.rowBlocks) * (tileColumns(table, tile) / table.dim);
        return { cost: table.cost * share, bytes: 0 };
      }),
    })),
  );
  const placed = partitionGreedily(groups, { devices, bytes: Infinity });
  let part = 0;
  const shards = cut.flatMap(({ table, scheme, way }) =>
    way.flatMap(({ tiles }) =>
      tiles.map((tile) => {
        const device = placed?.deviceOf[part++] ?? 0;
        const where = device < 0 ? ("all" as const) : device;
        const { name, tier = "memory" } = table;
        return { table: name, scheme, tier, ...tile, device: where };
      }),
    ),
  );
  return { devices, shards };
}

/** Where rows rest (Zion: Acun et al., arXiv 2011.05497); placement-kinds.ts plans each kind. */
export const placementKinds = ["auto", "device", "host", "servers", "hybrid"] as const;

/** The placement of a job. */
export interface PlacementSpec {
  readonly kind: (typeof placementKinds)[number];
  /** Devices that hold rows and run no samples: the last ones of the run. */
  readonly servers: number;
}

/** The placement of a job without one. */
export const plainPlacement: PlacementSpec = { kind: "auto", servers: 0 };

/** The servers among the devices of a generation: one device at least runs samples. */
export function serversOf(placement: PlacementSpec | undefined, devices: number): number {
  return Math.min(placement?.servers ?? 0, devices - 1);
}

/** Maximum number of devices: each device that runs samples needs at least one slice. */
export function mostDevices(job: {
  readonly slices: number;
  readonly placement?: PlacementSpec | undefined;
}): number {
  return job.slices + (job.placement?.servers ?? 0);
}

/** Number of slices of each device, 0 for servers, which come last; undefined: no servers. */
export function slicesBeside(slices: number, devices: number, servers: number) {
  if (servers === 0) return undefined;
  const trainers = sliceRunsOf(slices, devices - servers).map((run) => run.slices);
  return [...trainers, ...new Array<number>(servers).fill(0)];
}

/** Slices of one device: consecutive, so that its samples are consecutive in the batch. */
export interface SliceRun {
  readonly firstSlice: number;
  readonly slices: number;
}

/** Returns the slices of a batch, one run per device, with the given lengths or even ones. */
export function sliceRunsOf(
  slices: number,
  devices: number,
  lengths?: readonly number[],
): SliceRun[] {
  if (lengths !== undefined) {
    let end = 0;
    return lengths.map((length) => {
      end += length;
      return { firstSlice: end - length, slices: length };
    });
  }
  return Array.from({ length: devices }, (_, device) => {
    const firstSlice = Math.floor((device * slices) / devices);
    return { firstSlice, slices: Math.floor(((device + 1) * slices) / devices) - firstSlice };
  });
}
