// The column of a device's tiers: for each cached shard, how many rows lie in device memory (HBM),
// in host memory (DDR) and on disk (SSD), and how often each tier serves them. The numbers lie in
// shared memory: the device's thread writes those of its cache once a step, the tier's thread the
// others once a request, and the tier actor reads them on request (actors/host/tier-report.ts). No
// weight depends on them.

/** The device's thread writes the first list, the tier's thread the second. */
const hbmFields = ["needed", "missed", "conflicts", "evicted", "resident", "slots"] as const;
const belowFields = [
  ...["ddrSlots", "ddrResident", "ddrDirty", "ddrRequested", "ddrHits", "ddrEvicted"],
  ...["ssdRows", "ssdRead", "ssdWritten"],
] as const;

type HbmField = (typeof hbmFields)[number];

/** Device-memory figures of one shard: rows, and counts of rows that only grow. */
export interface HbmFigures extends Readonly<Record<HbmField, number>> {}

/** Figures of one shard below device memory. `ddrSlots` 0: there is no cache in host memory. */
export interface BelowFigures {
  readonly ddrSlots: number;
  readonly ddrResident: number;
  /** Dirty rows: eviction or a flush writes them to disk. */
  readonly ddrDirty: number;
  readonly ddrRequested: number;
  readonly ddrHits: number;
  readonly ddrEvicted: number;
  readonly ssdRows: number;
  readonly ssdRead: number;
  readonly ssdWritten: number;
}

/** Words of a shard. */
export const columnWords: number = hbmFields.length + belowFields.length;

/** A cached shard's counters and slots on its device. */
interface CachedShard {
  readonly counts: {
    readonly distinct: number;
    readonly missed: number;
    readonly conflicts: number;
    readonly left: number;
  };
  readonly cache: { readonly rowOf: { readonly length: number } };
}

/**
 * Writes the figures of a device's caches; `cached` has its cached shards in the order of the ring.
 */
export function writeHbm(words: Float64Array, cached: readonly CachedShard[]): void {
  let at = 0;
  for (const { counts, cache } of cached) {
    words[at] = counts.distinct;
    words[at + 1] = counts.missed;
    words[at + 2] = counts.conflicts;
    words[at + 3] = counts.left;
    words[at + 4] = counts.missed - counts.left;
    words[at + 5] = cache.rowOf.length;
    at += columnWords;
  }
}

/** Writes the figures of shard `at` below device memory. */
export function writeBelow(words: Float64Array, at: number, figures: BelowFigures): void {
  const first = at * columnWords + hbmFields.length;
  for (const [i, name] of belowFields.entries()) words[first + i] = figures[name as never] ?? 0;
}

/** Reads all figures of shard `at`. */
export function readColumn(words: Float64Array, at: number): HbmFigures & BelowFigures {
  const names = [...hbmFields, ...belowFields];
  const first = at * columnWords;
  return Object.fromEntries(names.map((name, i) => [name, words[first + i] ?? 0])) as never;
}
