// Decides which tables of a served model are on disk, and how many of their rows are cached in
// memory. The decision is a function of the job and the memory budget.
//
// If not all tables fit, the largest ones go to disk, until the remaining ones take at most half of
// the budget and leave room for a minimal cache of each table on disk. The rest of the budget is
// divided among the caches, by the number of lookups of a sample in each table.

import { tmpdir } from "node:os";
import {
  blockRowsOf,
  cacheShapesOf,
  cacheWays,
  type Disk,
  expected,
  indexBytes,
  type JobSpec,
  recordBytesOf,
  type ServedLookups,
  type SparseOptimizerSpec,
  servedStateWidth,
  type TableSpec,
} from "../../../internal.ts";
import { readRowsMax } from "./row-file.ts";

/** The shape of the cache of each row block of a table on disk. */
export interface TierShape {
  readonly sets: number;
  readonly spares: number;
}

/** The caches and the location of tables on disk. */
export interface TierPlaces {
  /** By table; undefined: the table is in memory. */
  readonly shapes: readonly (TierShape | undefined)[];
  readonly disk: Disk;
  readonly directory: string;
}

/** Options of `ServedModel.open` that decide where rows are stored. */
export interface TierOptions {
  /**
   * Most bytes of memory for the rows of all tables, including the room that applying a delta
   * needs. If not all tables fit, the largest ones are kept on disk, with a cache of their rows in
   * memory.
   * @default no limit: all rows are in memory
   */
  readonly memoryBytes?: number | undefined;
  /** Directory of the open model's tables on disk. @default the system's temporary directory */
  readonly tierDirectory?: string | undefined;
}

/** Bytes of a slot besides its row: its index entry, and entries in lists of spares and pins. */
const slotBytes = indexBytes + 48;

/** Slots of the minimal cache of a row block: one set, and the spares that go with it. */
const slotsMin = 3 * cacheWays;

/** The memory demand of a table, in memory and on disk. */
interface Demand {
  readonly table: number;
  readonly spec: TableSpec;
  /** Bytes if all rows are in memory, including room for a delta that changes all rows. */
  readonly memoryBytes: number;
  /** Bytes of one cache slot. */
  readonly placeBytes: number;
  /** Bytes besides the slots, if the table is on disk. */
  readonly besideBytes: number;
}

/** Chooses the tables on disk and their location. @throws InvalidOptionError */
export function tierPlacesOf(
  { model, optimizer }: JobSpec,
  { lookups }: ServedLookups,
  disk: Disk,
  { memoryBytes, tierDirectory = tmpdir() }: TierOptions,
): TierPlaces {
  const counts = model.tables.map((_, at) => {
    return lookups.filter(({ table }) => table === at).length;
  });
  const shapes = chooseTiers(model.tables, optimizer.sparse, counts, memoryBytes);
  return { shapes, disk, directory: tierDirectory };
}

/**
 * The cache of each table; undefined: all of its rows stay in memory. `lookups`: number of lookups
 * of a sample, by table. @throws InvalidOptionError where the minimal caches do not fit
 */
function chooseTiers(
  tables: readonly TableSpec[],
  optimizer: Pick<SparseOptimizerSpec, "ema">,
  lookups: readonly number[],
  memoryBytes: number | undefined,
): (TierShape | undefined)[] {
  if (memoryBytes === undefined) return tables.map(() => undefined);
  if (!(Number.isInteger(memoryBytes) && memoryBytes > 0)) {
    throw expected("memoryBytes", "an integer > 0", memoryBytes);
  }
  const demands = tables.map((spec, table) => demandOf(spec, table, optimizer));
  const bySize = [...demands].sort((one, other) => {
    return other.memoryBytes - one.memoryBytes || one.table - other.table;
  });
  let stays = bySize.reduce((sum, one) => sum + one.memoryBytes, 0);
  let least = 0;
  const onDisk: Demand[] = [];
  if (stays <= memoryBytes) return tables.map(() => undefined);
  for (const demand of bySize) {
    if (stays <= memoryBytes / 2 && stays + least <= memoryBytes) break;
    if (leastOf(demand) >= demand.memoryBytes) continue; // On disk it would take more memory.
    onDisk.push(demand);
    stays -= demand.memoryBytes;
    least += leastOf(demand);
  }
  if (stays + least > memoryBytes) {
    const wanted = `${stays + least} or more, for the smallest caches of the large tables`;
    throw expected("memoryBytes", wanted, memoryBytes);
  }
  const shapes: (TierShape | undefined)[] = tables.map(() => undefined);
  // There is one spare slot per three slots of sets, so sets get three quarters of the memory.
  const hbmBytes = Math.floor(0.75 * (memoryBytes - stays - least));
  const caches = cacheShapesOf(
    onDisk.map(({ spec, table, placeBytes }) => ({
      shard: { rows: blockRowsOf(spec) },
      placeBytes: placeBytes * spec.rowBlocks,
      lookupsMax: lookups[table] ?? 1,
    })),
    { hbmBytes, policy: "lru", prefetch: 0 },
  );
  for (const [i, { table, spec }] of onDisk.entries()) {
    const { sets = 1 } = caches[i] ?? {};
    const spares = cacheWays + Math.floor((sets * cacheWays) / 3);
    shapes[table] = { sets, spares: Math.min(blockRowsOf(spec), spares) };
  }
  return shapes;
}

function demandOf(
  spec: TableSpec,
  table: number,
  optimizer: Pick<SparseOptimizerSpec, "ema">,
): Demand {
  const recordBytes = recordBytesOf(spec, servedStateWidth(optimizer, spec.dim));
  return {
    ...{ table, spec },
    // Per row: its record and a byte for `touched`, both again for a spare slot, and an int32 in
    // the maps of two versions.
    memoryBytes: spec.rows * (2 * (recordBytes + 1) + 8),
    placeBytes: recordBytes + 1 + slotBytes,
    // One bit per row, copy and version (two each); and buffers for one read, raw and decoded.
    besideBytes: Math.ceil(spec.rows / 2) + readRowsMax * (2 * recordBytes + 4),
  };
}

function leastOf({ spec, placeBytes, besideBytes }: Demand): number {
  return besideBytes + slotsMin * spec.rowBlocks * placeBytes;
}
