// Tiers on the device's own thread: each request is carried out where it is posted. For a device
// without a cluster, for tests and for the simulator; in a cluster each device has a tier thread.

import type { BackingStore } from "../../src/embedding/rows/backing-store.ts";
import { createSoloCells } from "../../src/exchange/solo-cells.ts";
import type { RecordStore } from "../records/record-store.ts";
import { createCarrier } from "./carry-out.ts";
import {
  createBackingStore,
  createTierEnd,
  type TierRingShape,
  tierRingBytes,
  tierRingCells,
} from "./ring.ts";

/** The backing store of a device, in `store`; the store's shards are the shape's, in order. */
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
