// What a tier's thread does: carries out what its device asks for, one request after the other, so
// that the disk is read and written while the device computes.
//
// Invariants
//   S1. A request is done when all of it is: a device never sees half of one.
//   S2. What the disk refuses ends the generation, after it had time to make room: a restore puts
//       rows where they can lie, never a wrong row (law 3).

import type { Clock } from "../../src/clock.ts";
import type { TiersSpec } from "../../src/embedding/tiers.ts";
import type { Kernels } from "../../src/kernels/kernels.ts";
import { openRecords } from "../records/open-records.ts";
import { patient } from "../records/patient-records.ts";
import { type CachedRecordShard, createRecordCache } from "../records/record-cache.ts";
import { createCarrier } from "./carry-out.ts";
import type { TierEnd } from "./ring.ts";

/** `paused`: the disk is full, and somebody may make room; `slow`: a request takes long. */
export type TierState = "serving" | "paused" | "slow";

export interface TierOptions {
  readonly end: TierEnd;
  readonly shards: readonly CachedRecordShard[];
  readonly tiers: Pick<TiersSpec, "ssd" | "ddrBytes" | "policy">;
  /** The tier's own. */
  readonly directory: string;
  /** As `RecordStoreOptions.pageCache`. */
  readonly pageCache?: boolean;
  readonly kernels: Kernels;
  readonly clock: Pick<Clock, "now">;
  /** How long a request may take, the disk's making room included. */
  readonly deadlineMs: number;
  onState(state: TierState): void;
}

/** A request that takes this much of the deadline is told of: the next may miss it. */
const slowShare = 0.1;

/** Serves until a wait of the ring ends in an error; that, or the store's, is thrown. */
export async function serveTier(options: TierOptions): Promise<never> {
  const { end, shards, tiers, directory, kernels, clock, deadlineMs, onState } = options;
  const { pageCache = true } = options;
  const disk = await openRecords(tiers.ssd, { directory, shards, keep: "spill", pageCache });
  const below = patient(disk, {
    clock,
    patienceMs: deadlineMs / 2,
    onFull: (isFull) => onState(isFull ? "paused" : "serving"),
  });
  const { ddrBytes: bytes, policy } = tiers;
  const cache =
    bytes === 0 ? undefined : createRecordCache({ below, shards, bytes, policy, kernels });
  const store = cache ?? below;
  const carry = createCarrier(store);
  let isSlow = false;
  onState("serving");
  try {
    for (;;) {
      await end.wait();
      const request = end.next();
      if (request === undefined) continue;
      const startMs = clock.now();
      const hitsBefore = cache?.hits() ?? 0;
      carry(request); // S1
      end.done((cache?.hits() ?? 0) - hitsBefore);
      if (clock.now() - startMs > deadlineMs * slowShare !== isSlow) {
        isSlow = !isSlow;
        onState(isSlow ? "slow" : "serving");
      }
    }
  } finally {
    await store.close();
  }
}
