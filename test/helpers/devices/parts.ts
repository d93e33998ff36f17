// Reads the checkpoint parts that devices would write at a cut.

import { partsOf } from "../../../src/training/checkpoint/parts.ts";
import type { DeviceState } from "../../../src/training/step/device-state.ts";

/** The digest leaves of all parts of some devices, by name. */
export async function leavesOfParts(
  states: readonly DeviceState[],
): Promise<Map<string, readonly string[]>> {
  const leaves = new Map<string, readonly string[]>();
  for (const part of states.flatMap(partsOf)) leaves.set(part.name, await part.leaves());
  return leaves;
}

/** The bytes of all parts of some devices, by name. */
export async function bytesOfParts(states: readonly DeviceState[]): Promise<Map<string, Buffer>> {
  const parts = new Map<string, Buffer>();
  for (const part of states.flatMap(partsOf)) parts.set(part.name, await bytesOf(part.bytes()));
  return parts;
}

/** Concatenates all chunks. */
export async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(Uint8Array.from(chunk));
  return Buffer.concat(all);
}

/** Collects all items, in order. */
export async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
