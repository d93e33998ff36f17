// Tiers on the device's own thread, which execute each request when it is posted. They are used for
// a device without a cluster, in tests and in the simulator; in a cluster each device has a tier
// thread.

import type { BackingStore } from "../../src/embedding/rows/backing-store.ts";
import { createSoloCells } from "../../src/exchange/solo-cells.ts";
import { createCarrier } from "./carry-out.ts";
import type { RecordStore } from "./records/record-store.ts";
import {
  createBackingStore,
  createTierEnd,
  type TierRingShape,
  tierRingBytes,
  tierRingCells,
} from "./ring.ts";

/** A device's backing store over `store`, whose shards are those of the shape, in order. */
export function createInlineTiers(store: RecordStore, shape: TierRingShape): BackingStore {
  const memory = new ArrayBuffer(tierRingBytes(shape));
  const cells = createSoloCells(tierRingCells);
  const place = { shape, memory, cells, cellBase: 0, peer: 0 };
  const end = createTierEnd(place);
  const carry = createCarrier(store);
  return createBackingStore(place, () => {
    const request = end.next();
    if (request !== undefined) carry(request);
    end.done(0);
  });
}
