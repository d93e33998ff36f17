// The loop of a tier thread: it executes its device's requests one after the other, so that the
// disk is read and written while the device computes.
//
// Invariants
//   S1. A request is marked done once all of it is executed: a device never sees half of one.
//   S2. A failure of the disk ends the generation; if the disk is full, after a wait for room. The
//       next generation restores the rows from the checkpoint; no wrong row is ever returned (law
//       3).

import type { TiersSpec } from "../../src/embedding/tables/tier-options.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Disk } from "../../src/ports/disk.ts";
import {
  type BelowFigures,
  columnWords,
  writeBelow,
} from "../../src/training/meters/tier-column.ts";
import { createCarrier } from "./carry-out.ts";
import type { RecordStoreKind } from "./records/open-records.ts";
import { createRecordCache, type RecordCache } from "./records/record-cache.ts";
import type { RecordStore } from "./records/record-store.ts";
import { retryingStore } from "./records/retrying-store.ts";
import type { TierEnd } from "./ring.ts";
import {
  type FoundRows,
  openTierStore,
  type TierPlace,
  type TierRecordShard,
  type TierStore,
} from "./tier-store.ts";

/** `paused`: the disk is full and the tier waits for room; `slow`: a request took too long. */
export type TierState = "serving" | "paused" | "slow";

/**
 * `persist`: persists durable rows under the stamp of a committed checkpoint and closes them.
 * `flush`: writes dirty rows from host memory to the disk.
 */
export type TierCommand =
  | { readonly type: "persist"; readonly stamp: string }
  | { readonly type: "flush" };

export type TierReport =
  | { readonly type: TierState }
  /** Reported once. `found`: set if there are durable shards and a checkpoint to restore. */
  | {
      readonly type: "opened";
      readonly store: RecordStoreKind;
      readonly found: FoundRows | undefined;
    }
  /** The answer to `persist`. */
  | { readonly type: "persisted"; readonly kept: FoundRows }
  /** The answer to `flush`. */
  | { readonly type: "flushed"; readonly rows: number };

export interface TierOptions {
  readonly end: TierEnd;
  readonly shards: readonly TierRecordShard[];
  readonly tiers: Pick<TiersSpec, "ssd" | "ddrBytes" | "policy">;
  readonly place: TierPlace;
  /** Stamp of the checkpoint that the generation restores; undefined: it starts from scratch. */
  readonly stamp?: string | undefined;
  /** As `RecordStoreOptions.pageCache`. */
  readonly pageCache?: boolean;
  readonly kernels: Kernels;
  readonly disk: Disk;
  readonly clock: Pick<Clock, "now">;
  /** As `pause` of `retryingStore`. */
  readonly pause?: ((ms: number) => void) | undefined;
  /** Longest time of a request, without waits for disk space. */
  readonly deadlineMs: number;
  /** How long a write waits for space on a full disk. @default half of `deadlineMs` */
  readonly roomMs?: number | undefined;
  /** Called when such a wait begins and ends, as the tier counts as alive meanwhile. */
  readonly onHold?: ((isHeld: boolean) => void) | undefined;
  /** Receives the rows in each tier after each request (tier-column.ts). */
  readonly column?: Float64Array | undefined;
  /** The next command, if there is one. It is executed when no request is pending. */
  nextCommand?(): TierCommand | undefined;
  report(report: TierReport): void;
}

/** Executes requests until the ring's wait or the store throws; rethrows that error. */
export async function serveTier(options: TierOptions): Promise<never> {
  const { end, shards, tiers, place, stamp, kernels, clock, deadlineMs, roomMs, report } = options;
  const { pageCache, disk, pause, onHold, nextCommand = () => undefined } = options;
  const { column = new Float64Array(columnWords * shards.length) } = options;
  const deadlines = deadlinesOf({ stepDeadlineMs: deadlineMs });
  const kind = tiers.ssd === "none" ? "memory" : tiers.ssd;
  const records = await openTierStore({ kind, shards, place, stamp, pageCache, disk });
  report({ type: "opened", store: records.kind, found: records.found });
  const onState = (type: TierState) => report({ type });
  let hasWaited = false;
  const counted = countedStore(records, shards.length);
  const backing = retryingStore(counted, {
    clock,
    pause,
    patienceMs: roomMs ?? deadlines.disk,
    onFull: (isFull) => {
      onHold?.(isFull);
      hasWaited = true;
      onState(isFull ? "paused" : "serving");
    },
  });
  const { ddrBytes: bytes, policy } = tiers;
  const isCached = bytes > 0 && kind !== "memory";
  const cache = isCached
    ? createRecordCache({ backing, shards, bytes, policy, kernels })
    : undefined;
  /** Rows read so far that were in host memory. */
  const hits = () => (kind === "memory" ? records.stats().read : (cache?.hits() ?? 0));
  const store = cache ?? backing;
  const updateColumn = () => {
    for (const at of shards.keys()) writeBelow(column, at, figuresOf(records, cache, counted, at));
  };
  const carry = createCarrier(store, records.isKept);
  let isSlow = false;
  let command: TierCommand | undefined;
  onState("serving");
  try {
    for (;;) {
      await end.wait(() => {
        command ??= nextCommand();
        return command !== undefined;
      });
      const request = end.next();
      if (request !== undefined) {
        const startMs = clock.now();
        hasWaited = false;
        const hitsBefore = hits();
        carry(request); // S1
        updateColumn();
        end.done(hits() - hitsBefore);
        // A request that waited for space does not measure the speed of the disk.
        if (!hasWaited && clock.now() - startMs > deadlines.diskSlow !== isSlow) {
          isSlow = !isSlow;
          onState(isSlow ? "slow" : "serving");
        }
      } else if (command !== undefined) {
        if (command.type === "flush") {
          report({ type: "flushed", rows: cache?.flush() ?? 0 });
          updateColumn();
        } else report({ type: "persisted", kept: await persisted(store, records, command.stamp) });
        command = undefined;
      }
    }
  } finally {
    // The generation has ended with an error, which an error of closing must not hide.
    await store.close().catch(() => {});
  }
}

/** A store that counts the rows read and written by shard. */
interface CountedStore extends RecordStore {
  readonly rowsRead: Float64Array;
  readonly rowsWritten: Float64Array;
}

function countedStore(store: RecordStore, shards: number): CountedStore {
  const [rowsRead, rowsWritten] = [new Float64Array(shards), new Float64Array(shards)];
  return {
    ...store,
    rowsRead,
    rowsWritten,
    get stamp() {
      return store.stamp;
    },
    read(at, rows, records, found) {
      store.read(at, rows, records, found);
      let here = 0;
      for (let i = 0; i < rows.length; i++) here += found[i] ?? 0;
      rowsRead[at] = (rowsRead[at] ?? 0) + here;
    },
    write(at, rows, records) {
      store.write(at, rows, records);
      rowsWritten[at] = (rowsWritten[at] ?? 0) + rows.length;
    },
  };
}

/** Statistics of shard `at` in host memory and on disk. */
function figuresOf(
  records: TierStore,
  cache: RecordCache | undefined,
  { rowsRead, rowsWritten }: CountedStore,
  at: number,
): BelowFigures {
  const own = cache?.figures(at);
  const [rows, read] = [records.count(at), rowsRead[at] ?? 0];
  if (records.kind === "memory") {
    const ddr = { ddrSlots: rows, ddrResident: rows, ddrDirty: rows, ddrEvicted: 0 };
    return { ...ddr, ddrRequested: read, ddrHits: read, ssdRows: 0, ssdRead: 0, ssdWritten: 0 };
  }
  return {
    ddrSlots: own?.slots ?? 0,
    ddrResident: own?.resident ?? 0,
    ddrDirty: own?.dirty ?? 0,
    ddrRequested: own?.requested ?? 0,
    ddrHits: own?.hits ?? 0,
    ddrEvicted: own?.evicted ?? 0,
    ssdRows: rows,
    ssdRead: read,
    ssdWritten: rowsWritten[at] ?? 0,
  };
}

/**
 * Persists the durable rows. The checkpoint is committed already, so a failure only costs time at
 * the next restore and is reported instead of thrown.
 */
async function persisted(
  store: Pick<RecordStore, "sync">,
  records: Pick<TierStore, "persist">,
  stamp: string,
): Promise<FoundRows> {
  try {
    store.sync(stamp);
    return { rows: await records.persist() };
  } catch (error) {
    if (!(error instanceof TrainingError)) throw error;
    return { rows: 0, reason: error.message };
  }
}
