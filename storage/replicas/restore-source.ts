// What a device restores from: copies in the memory of its host, those that come from other hosts,
// and the checkpoint store for what nobody has a copy of.
//
// Invariants
//   R1. A copy is used when its bytes have the hash of the manifest; otherwise the store is read.

import { createHash } from "node:crypto";
import type { Cells } from "../../src/exchange/cells.ts";
import type { Manifest } from "../checkpoint-store/checkpoint-store.ts";
import type { PartStore } from "../checkpoint-store/part-files.ts";
import { filesOfPart, keyOf, type NamedFile, type PartCopy } from "./replica-cache.ts";

/** The copies of a generation, as the threads of a host see them. Plain data and shared memory. */
export interface CopiesAtHand {
  /** Here already. */
  readonly here: readonly PartCopy[];
  /** Those that are asked for, and memory for them. */
  readonly awaited: readonly PartCopy[];
  /** (awaited): 1 once a device has read the file from the store into its memory. */
  readonly filled: SharedArrayBuffer;
}

/** What the cell of an awaited file says, once it is known. */
export const awaitedStates = { pending: 0, there: 1, nowhere: 2 } as const;

/** Cells of `files` awaited files: how many pieces have come, and the state of each. */
export const copyCells = (files: number): number => 1 + files;

export interface LayerSource {
  /** See `CheckpointStore.readLayers`. Resolves once it is known where each layer comes from. */
  layers(name: string): Promise<Iterable<Uint8Array>[]>;
  /** Bytes that came from memory and from the store, so far. */
  readonly restored: { memoryBytes: number; storeBytes: number };
}

/** Bytes handed on at once. */
const pieceBytes = 1024 * 1024;

export function createLayerSource(options: {
  readonly store: Pick<PartStore, "readLayers">;
  readonly manifest: Manifest;
  readonly atHand: CopiesAtHand;
  readonly cells: Cells;
  readonly cellBase: number;
  /** The participant that has copies come. */
  readonly peer: number;
}): LayerSource {
  const { store, manifest, atHand, cells, cellBase, peer } = options;
  const here = new Map(atHand.here.map((copy) => [keyOf(copy), copy]));
  const filled = new Int32Array(atHand.filled);
  const restored = { memoryBytes: 0, storeBytes: 0 };

  async function copyOf(file: NamedFile): Promise<PartCopy | undefined> {
    const own = here.get(keyOf(file));
    const at = atHand.awaited.findIndex((one) => keyOf(one) === keyOf(file));
    if (own !== undefined || at < 0) return own;
    const state = () => cells.load(cellBase + 1 + at);
    while (state() === awaitedStates.pending) {
      const pieces = cells.load(cellBase);
      await cells.waitUntil(
        () => `${file.name} from the memory of another host`,
        () => state() !== awaitedStates.pending || cells.load(cellBase) !== pieces,
        peer,
      );
    }
    return state() === awaitedStates.there ? atHand.awaited[at] : undefined;
  }

  /** Reads from the store, and makes a copy of it where there is memory for one. */
  function* fromStore(file: NamedFile, pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
    const at = atHand.awaited.findIndex((one) => keyOf(one) === keyOf(file));
    const awaited = atHand.awaited[at];
    const copy = awaited && new Uint8Array(awaited.memory);
    let done = 0;
    for (const piece of pieces) {
      copy?.set(piece, done);
      done += piece.length;
      restored.storeBytes += piece.length;
      yield piece;
    }
    if (copy !== undefined) Atomics.store(filled, at, 1);
  }

  return {
    restored,
    async layers(name) {
      const part = manifest.parts.find((one) => one.name === name);
      if (part === undefined) throw new RangeError(`Cut ${manifest.cut} has no part ${name}`);
      const stored = store.readLayers(manifest, name);
      const layers: Iterable<Uint8Array>[] = [];
      for (const [i, file] of filesOfPart(manifest, part).entries()) {
        const copy = await copyOf(file);
        if (copy !== undefined && isIntact(copy)) {
          restored.memoryBytes += file.bytes;
          layers.push(piecesOf(copy));
        } else {
          layers.push(fromStore(file, stored[i] ?? []));
        }
      }
      return layers;
    },
  };
}

/** R1 */
function isIntact(copy: PartCopy): boolean {
  const hash = createHash("sha256");
  for (const piece of piecesOf(copy)) hash.update(piece);
  return hash.digest("hex") === copy.sha256;
}

/** In memory that nobody shares. */
function* piecesOf({ memory, bytes }: PartCopy): Generator<Uint8Array> {
  for (let at = 0; at < bytes; at += pieceBytes) {
    yield Uint8Array.from(new Uint8Array(memory, at, Math.min(pieceBytes, bytes - at)));
  }
}
