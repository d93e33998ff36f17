// The fence that keeps late writers off the chain: only the newest generation can write files that
// count.

import { strict as assert } from "node:assert";
import { GenerationFencedError, StoreFailedError } from "../../../src/errors/errors.ts";
import { onDisk } from "../../disk/durable-files.ts";
import type { PartPlace } from "./place.ts";

/** @throws GenerationFencedError if `generation` is not the newest */
export function checkFence(place: PartPlace, generation: number): void {
  const newest = place.newestGeneration();
  if (newest > generation) throw fencedError(place, generation, newest);
  assert.equal(newest, generation, "a generation must be claimed before it writes");
}

/** As `onDisk`, but a failure caused by a newer generation becomes a GenerationFencedError. */
export function asGeneration<Result>(
  place: PartPlace,
  generation: number,
  action: string,
  path: string,
  body: () => Result,
): Result {
  try {
    return onDisk(action, path, body);
  } catch (error) {
    const newest = error instanceof StoreFailedError ? newestOrNone(place) : 0;
    throw newest > generation ? fencedError(place, generation, newest) : error;
  }
}

function fencedError(place: PartPlace, generation: number, newest: number) {
  return new GenerationFencedError(place.address, generation, newest, place.takerOf(newest));
}

/** The newest generation; 0 if it cannot be read, as a second failure must not hide the first. */
function newestOrNone(place: PartPlace): number {
  try {
    return place.newestGeneration();
  } catch (error) {
    if (!(error instanceof StoreFailedError)) throw error;
    return 0;
  }
}
