// Which tables of a served model lie on disk, and how many of their rows in memory: a function of
// the job and the budget alone.
//
// Where not all fit, the largest tables go to disk, until those that stay take half of the budget
// at most, and leave room for a least cache of each that went. What is left of the budget are the
// caches, shared by how often a sample looks each table up.

import { tmpdir } from "node:os";
import { cacheShapesOf, indexBytes } from "../../src/embedding/rows/cache-sizes.ts";
import type { SparseOptimizerSpec, TableSpec } from "../../src/embedding/tables/options.ts";
import { blockRowsOf } from "../../src/embedding/tables/shards.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { recordBytesOf } from "../../src/kernels/contract/records.ts";
import { cacheWays } from "../../src/kernels/contract/row-cache.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { Disk } from "../../src/ports/disk.ts";
import type { ServedLookups } from "../../src/serving/lookups.ts";
import { servedStateWidth } from "../../src/serving/served-memory.ts";
import { readRowsMax } from "./row-file.ts";

/** The cache of a table on disk: of each of its row blocks. */
export interface TierShape {
  readonly sets: number;
  readonly spares: number;
}

/** Where tables that are not in memory lie. */
export interface TierPlaces {
  /** By table; undefined: it is in memory. */
  readonly shapes: readonly (TierShape | undefined)[];
  readonly disk: Disk;
  readonly directory: string;
}

/** Options of `ServedModel.open` about where rows lie. */
export interface TierOptions {
  /**
   * Bytes of memory that the rows of all tables may take, with the room for a delta of them.
   * Tables that do not fit, the largest first, lie on disk, and a cache of their rows in memory.
   * @default no limit: all rows lie in memory
   */
  readonly memoryBytes?: number | undefined;
  /** Where tables on disk lie while the model is open. @default the system's temporary directory */
  readonly tierDirectory?: string | undefined;
}

/** Bytes of a slot beside its row: its index entry, its places in lists of spares and of a call. */
const slotBytes = indexBytes + 48;

/** Slots of the least cache of a row block: one set, and spares as beside it. */
const slotsMin = 3 * cacheWays;

/** Tables as the budget sees them. */
interface Demand {
  readonly table: number;
  readonly spec: TableSpec;
  /** Bytes where all of its rows lie in memory, with the room that a delta of them all takes. */
  readonly memoryBytes: number;
  /** Bytes of a slot of each row block. */
  readonly placeBytes: number;
  /** Bytes beside the slots, where it lies on disk. */
  readonly besideBytes: number;
}

/** Which tables lie on disk, and where. @throws InvalidOptionError */
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
 * By table, its cache; undefined: all of its rows stay in memory. `lookups`: those of a sample, by
 * table. @throws InvalidOptionError where the least caches have no room
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
    if (leastOf(demand) >= demand.memoryBytes) continue; // On disk it would take more.
    onDisk.push(demand);
    stays -= demand.memoryBytes;
    least += leastOf(demand);
  }
  if (stays + least > memoryBytes) {
    const wanted = `${stays + least} or more, for the smallest caches of the large tables`;
    throw expected("memoryBytes", wanted, memoryBytes);
  }
  const shapes: (TierShape | undefined)[] = tables.map(() => undefined);
  // Spares are a third of the sets' slots: sets have three quarters of the room.
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
    // A byte a row for `touched`; as many spare places; the maps of two versions.
    memoryBytes: spec.rows * (2 * (recordBytes + 1) + 8),
    placeBytes: recordBytes + 1 + slotBytes,
    // A bit a row for each copy of two versions; what is read at once, as it comes and as it is.
    besideBytes: Math.ceil(spec.rows / 2) + readRowsMax * (2 * recordBytes + 4),
  };
}

function leastOf({ spec, placeBytes, besideBytes }: Demand): number {
  return besideBytes + slotsMin * spec.rowBlocks * placeBytes;
}
