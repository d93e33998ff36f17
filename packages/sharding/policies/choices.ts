// Turns a policy's scores into a choice among the devices with room: a softmax, and a draw from it
// or its most probable device.

import type { RandomStream } from "../../../internal.ts";

/**
 * The softmax of the scores over the devices with room, in a step whose rows begin at `first`; 0
 * for devices without room.
 */
export function probabilities(
  scores: Float32Array,
  hasRoom: Uint8Array,
  first: number,
  devices: number,
): Float64Array {
  const shares = new Float64Array(devices);
  let most = Number.NEGATIVE_INFINITY;
  for (let own = 0; own < devices; own++) {
    if (hasRoom[first + own] === 1) most = Math.max(most, scores[first + own] ?? 0);
  }
  let sum = 0;
  for (let own = 0; own < devices; own++) {
    if (hasRoom[first + own] !== 1) continue;
    shares[own] = Math.exp((scores[first + own] ?? 0) - most);
    sum += shares[own] ?? 0;
  }
  return shares.map((share) => share / sum);
}

/** Entropy of a distribution, in nats. */
export function entropyOf(shares: Float64Array): number {
  return shares.reduce((sum, share) => (share > 0 ? sum - share * Math.log(share) : sum), 0);
}

/**
 * Chooses a device with room: drawn with `random`, else the most probable. -1: no device has room.
 */
export function chosenOf(
  scores: Float32Array,
  hasRoom: Uint8Array,
  first: number,
  devices: number,
  random: RandomStream | undefined,
): number {
  const shares = probabilities(scores, hasRoom, first, devices);
  const drawn = random?.uniform();
  let last = -1;
  let best = 0;
  let below = 0;
  for (let device = 0; device < devices; device++) {
    const share = shares[device] ?? 0;
    if (hasRoom[first + device] !== 1) continue;
    below += share;
    if (drawn !== undefined && drawn < below) return device;
    if (drawn !== undefined || last < 0 || share > best) last = device;
    best = Math.max(best, share);
  }
  return last;
}

/**
 * Returns the device with the fewest bytes in `held`, among `devices` devices from index `first`.
 */
export function emptiestOf(held: Float64Array, first: number, devices: number): number {
  let best = 0;
  for (let device = 1; device < devices; device++) {
    if ((held[first + device] ?? 0) < (held[first + best] ?? 0)) best = device;
  }
  return best;
}
