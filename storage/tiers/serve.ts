// What a tier's thread does: carries out what its device asks for, one request after the other, so
// that the disk is read and written while the device computes.
//
// Invariants
//   S1. A request is done when all of it is: a device never sees half of one.
//   S2. What the disk refuses ends the generation, after it had time to make room: a restore puts
//       rows where they can lie, never a wrong row (law 3).

import type { TiersSpec } from "../../src/embedding/tables/tier-options.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { patient } from "../records/patient-records.ts";
import { createRecordCache } from "../records/record-cache.ts";
import type { RecordStore } from "../records/record-store.ts";
import { createCarrier } from "./carry-out.ts";
import type { TierEnd } from "./ring.ts";
import {
  type FoundRows,
  openTierStore,
  type TierPlace,
  type TierRecordShard,
  type TierStore,
} from "./tier-store.ts";

/** `paused`: the disk is full, and somebody may make room; `slow`: a request takes long. */
export type TierState = "serving" | "paused" | "slow";

/** Lay durable rows to rest under the stamp of a checkpoint that is committed. */
export interface TierCommand {
  readonly type: "rest";
  readonly stamp: string;
}

export type TierReport =
  | { readonly type: TierState }
  /** Told once, where there are durable rows and a checkpoint to go on from. */
  | { readonly type: "found"; readonly found: FoundRows }
  /** The answer to `rest`. */
  | { readonly type: "rested"; readonly kept: FoundRows };

export interface TierOptions {
  readonly end: TierEnd;
  readonly shards: readonly TierRecordShard[];
  readonly tiers: Pick<TiersSpec, "ssd" | "ddrBytes" | "policy">;
  readonly place: TierPlace;
  /** Of the checkpoint that the generation goes on from; undefined where it starts. */
  readonly stamp?: string | undefined;
  /** As `RecordStoreOptions.pageCache`. */
  readonly pageCache?: boolean;
  readonly kernels: Kernels;
  readonly disk: Disk;
  readonly clock: Pick<Clock, "now">;
  /** As that of `patient`. */
  readonly pause?: ((ms: number) => void) | undefined;
  /** How long a request may take, the disk's making room included. */
  readonly deadlineMs: number;
  /** A command, where one has come. It is taken when no request waits. */
  nextCommand?(): TierCommand | undefined;
  tell(report: TierReport): void;
}

/** Serves until a wait of the ring ends in an error; that, or the store's, is thrown. */
export async function serveTier(options: TierOptions): Promise<never> {
  const { end, shards, tiers, place, stamp, kernels, clock, deadlineMs, tell } = options;
  const { pageCache, disk, pause, nextCommand = () => undefined } = options;
  const deadlines = deadlinesOf({ stepDeadlineMs: deadlineMs });
  const records = await openTierStore({ kind: tiers.ssd, shards, place, stamp, pageCache, disk });
  if (records.found !== undefined) tell({ type: "found", found: records.found });
  const onState = (type: TierState) => tell({ type });
  const below = patient(records, {
    clock,
    pause,
    patienceMs: deadlines.disk,
    onFull: (isFull) => onState(isFull ? "paused" : "serving"),
  });
  const { ddrBytes: bytes, policy } = tiers;
  const cache =
    bytes === 0 ? undefined : createRecordCache({ below, shards, bytes, policy, kernels });
  const store = cache ?? below;
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
        const hitsBefore = cache?.hits() ?? 0;
        carry(request); // S1
        end.done((cache?.hits() ?? 0) - hitsBefore);
        if (clock.now() - startMs > deadlines.diskSlow !== isSlow) {
          isSlow = !isSlow;
          onState(isSlow ? "slow" : "serving");
        }
      } else if (command !== undefined) {
        tell({ type: "rested", kept: await rested(store, records, command.stamp) });
        command = undefined;
      }
    }
  } finally {
    // Rows of a generation that is over: what cannot be closed must not hide why it ended.
    await store.close().catch(() => {});
  }
}

/** The checkpoint is committed: rows that cannot be kept beside it are a loss of time alone. */
async function rested(
  store: Pick<RecordStore, "sync">,
  records: Pick<TierStore, "rest">,
  stamp: string,
): Promise<FoundRows> {
  try {
    store.sync(stamp);
    return { rows: await records.rest() };
  } catch (error) {
    if (!(error instanceof TrainingError)) throw error;
    return { rows: 0, reason: error.message };
  }
}
