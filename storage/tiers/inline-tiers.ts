// Tiers on the device's own thread: what a request asks for is done where it is posted. For a
// device that is alone, for tests and for the simulator; a device of a cluster has a thread for it.

import type { RowsBelow } from "../../src/embedding/rows/backing-store.ts";
import { createSoloCells } from "../../src/exchange/solo-cells.ts";
import type { RecordStore } from "../records/record-store.ts";
import { createCarrier } from "./carry-out.ts";
import {
  createRowsBelow,
  createTierEnd,
  type TierRingShape,
  tierRingBytes,
  tierRingCells,
} from "./ring.ts";

/** What lies below a device, in `store`, whose shards are those of the shape, in their order. */
export function createInlineTiers(store: RecordStore, shape: TierRingShape): RowsBelow {
  const memory = new ArrayBuffer(tierRingBytes(shape));
  const cells = createSoloCells(tierRingCells);
  const place = { shape, memory, cells, cellBase: 0, peer: 0 };
  const end = createTierEnd(place);
  const carry = createCarrier(store);
  return createRowsBelow(place, () => {
    const request = end.next();
    if (request !== undefined) carry(request);
    end.done(0);
  });
}
