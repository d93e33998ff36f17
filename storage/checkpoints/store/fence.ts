// The fence that keeps late writers off the chain (manifest-chain.ts): only the newest generation
// can write files that count.

import { strict as assert } from "node:assert";
import { dirname } from "node:path";
import { GenerationFencedError, StoreFailedError } from "../../../src/errors/errors.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { onDisk, readWhole } from "../../disk/durable-files.ts";
import { parseGenerationName, type StorePaths } from "./store-paths.ts";

/** The access to a store's directory that a writer of parts needs. */
export interface FencedPlace {
  readonly disk: Disk;
  readonly paths: StorePaths;
  /** Bytes after which a pack is finished (pack-writer.ts); left out: the usual number. */
  readonly packBytes?: number | undefined;
}

/** The newest generation that was ever claimed; 0 before the first. */
export function newestGeneration({ disk, paths }: FencedPlace): number {
  const names = onDisk("read", paths.generations, () => disk.list(paths.generations));
  return names.reduce((newest, name) => Math.max(newest, parseGenerationName(name) ?? 0), 0);
}

/** @throws GenerationFencedError if `generation` is not the newest */
export function checkFence(place: FencedPlace, generation: number): void {
  const newest = newestGeneration(place);
  if (newest > generation) throw fencedError(place, generation, newest);
  assert.equal(newest, generation, "a generation must be claimed before it writes");
}

/** As `onDisk`, but a failure caused by a newer generation becomes a GenerationFencedError. */
export function asGeneration<Result>(
  place: FencedPlace,
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

function fencedError(place: FencedPlace, generation: number, newest: number) {
  const directory = dirname(place.paths.job);
  return new GenerationFencedError(directory, generation, newest, takerOf(place, newest));
}

/** The process that claimed a generation and when, for people; undefined where it is unknown. */
function takerOf({ disk, paths }: FencedPlace, generation: number): string | undefined {
  const path = paths.generation(generation);
  try {
    const since = new Date(disk.modifiedMs(path)).toISOString();
    const { writer } = JSON.parse(new TextDecoder().decode(readWhole(disk, path)));
    const [machine, pid] = String(writer).split("-");
    const [thisMachine, thisPid] = disk.writer.split("-");
    if (pid === undefined) return `another writer at ${since}`;
    if (machine !== thisMachine) return `process ${pid} of another machine at ${since}`;
    return `${pid === thisPid ? "this process" : `process ${pid} of this machine`} at ${since}`;
  } catch {
    return undefined; // The record is unfinished, or just removed.
  }
}

/** The newest generation; 0 if it cannot be read, as a second failure must not hide the first. */
function newestOrNone(place: FencedPlace): number {
  try {
    return newestGeneration(place);
  } catch (error) {
    if (!(error instanceof StoreFailedError)) throw error;
    return 0;
  }
}
