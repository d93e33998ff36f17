// The ring between a device and its tier in the benches of whole steps, with its own cells.

import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { abortCells, cellWords } from "../../src/exchange/cells.ts";
import { realClock } from "../../src/ports/clock.ts";
import type { Topology } from "../../src/training/topology/topology.ts";
import { tierRingCells } from "../../storage/tiers/ring.ts";
import { tierRingBytes } from "../../storage/tiers/ring-slots.ts";
import { tierRingOf } from "../../storage/tiers/shape.ts";
import type { TrainWork } from "./train-work.ts";

/** Memory that the device's thread and its tier's thread share. */
export interface TierMemory {
  readonly words: SharedArrayBuffer;
  readonly ring: SharedArrayBuffer;
}

const participants = 2;

/** Memory of the ring; undefined where the device's memory has all its rows. */
export function tierMemoryOf(
  work: TrainWork,
  topology: Topology,
  rank: number,
): TierMemory | undefined {
  const shape = tierRingOf(topology, rank, work.recipe.optimizer.sparse);
  if (shape === undefined) return undefined;
  return {
    words: new SharedArrayBuffer(4 * cellWords(participants, tierRingCells)),
    ring: new SharedArrayBuffer(tierRingBytes(shape)),
  };
}

/** The end of the ring for the device (0) or for its tier (1). */
export function tierPlaceOf(
  work: TrainWork,
  topology: Topology,
  rank: number,
  { words, ring }: TierMemory,
  participant: 0 | 1,
) {
  const shape = tierRingOf(topology, rank, work.recipe.optimizer.sparse);
  if (shape === undefined) throw new RangeError(`Device ${rank} has no tier`);
  const cells = createAtomicCells({
    words: new Int32Array(words),
    ...{ participants, participant, generation: 1 },
    deadlineMs: Number.POSITIVE_INFINITY,
    clock: realClock,
  });
  return { shape, memory: ring, cells, cellBase: 0, peer: 1 - participant };
}

/** Ends the tier. */
export function abortTier({ words }: TierMemory): void {
  abortCells(new Int32Array(words), participants);
}
