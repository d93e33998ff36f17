// The sources from which a device restores its rows: replicas in its host's memory, replicas
// fetched from other hosts, and the checkpoint store for files without a replica.
//
// Invariants
//   R1. A replica is used only if its bytes have the manifest's hash; otherwise the store is read.

import { createHash } from "node:crypto";
import type { Cells } from "../../../src/exchange/cells.ts";
import type { Manifest } from "../store/checkpoint-store.ts";
import type { PartStore } from "../store/open-parts.ts";
import { partsByName } from "../store/part-index.ts";
import { filesOfPart, keyOf, type NamedFile, type PartReplica } from "./replica-cache.ts";

/**
 * The replicas available to the threads of a host. Plain data and shared memory.
 */
export interface ReplicasAtHand {
  /** Replicas that are in memory already. */
  readonly here: readonly PartReplica[];
  /** Files that are being fetched, with memory for them. */
  readonly awaited: readonly PartReplica[];
  /** (awaited): 1 once a device has read the file from the store into its memory. */
  readonly filled: SharedArrayBuffer;
}

/** States of an awaited file's cell. */
export const awaitedStates = { pending: 0, arrived: 1, nowhere: 2 } as const;

/** Number of cells for `files` awaited files: a count of received pieces, and each file's state. */
export const replicaCells = (files: number): number => 1 + files;

export interface RestoreSource {
  /** As `CheckpointStore.readFiles`. Resolves once the source of each file is known. */
  files(name: string): Promise<Iterable<Uint8Array>[]>;
  /** Bytes read from memory and from the store so far. */
  readonly restored: { memoryBytes: number; storeBytes: number };
  /** Closes the files that were read. */
  close(): void;
}

/** Most bytes of a yielded piece. */
const pieceBytes = 1024 * 1024;

export function createRestoreSource(options: {
  readonly store: Pick<PartStore, "readFiles" | "close">;
  readonly manifest: Manifest;
  readonly atHand: ReplicasAtHand;
  readonly cells: Cells;
  readonly cellBase: number;
  /** The participant that fetches replicas. */
  readonly peer: number;
}): RestoreSource {
  const { store, manifest, atHand, cells, cellBase, peer } = options;
  const here = new Map(atHand.here.map((copy) => [keyOf(copy), copy]));
  const placeOf = new Map(atHand.awaited.map((copy, at) => [keyOf(copy), at]));
  const filled = new Int32Array(atHand.filled);
  const restored = { memoryBytes: 0, storeBytes: 0 };

  async function replicaOf(file: NamedFile): Promise<PartReplica | undefined> {
    const own = here.get(keyOf(file));
    const at = placeOf.get(keyOf(file));
    if (own !== undefined || at === undefined) return own;
    const state = () => cells.load(cellBase + 1 + at);
    while (state() === awaitedStates.pending) {
      const pieces = cells.load(cellBase);
      await cells.waitUntil(
        () => `${file.name} from the memory of another host`,
        () => state() !== awaitedStates.pending || cells.load(cellBase) !== pieces,
        peer,
      );
    }
    return state() === awaitedStates.arrived ? atHand.awaited[at] : undefined;
  }

  /** Reads from the store, and fills the file's replica if memory was allotted for it. */
  function* fromStore(file: NamedFile, pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
    const at = placeOf.get(keyOf(file)) ?? -1;
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
    close: () => store.close(),
    async files(name) {
      const part = partsByName(manifest).get(name);
      if (part === undefined) throw new RangeError(`Cut ${manifest.cut} has no part ${name}`);
      const stored = store.readFiles(manifest, name);
      const files: Iterable<Uint8Array>[] = [];
      for (const [i, file] of filesOfPart(manifest, part).entries()) {
        const copy = await replicaOf(file);
        if (copy !== undefined && isIntact(copy)) {
          restored.memoryBytes += file.bytes;
          files.push(piecesOf(copy));
        } else {
          files.push(fromStore(file, stored[i] ?? []));
        }
      }
      return files;
    },
  };
}

/** Whether the bytes have the manifest's hash. R1 */
function isIntact(copy: PartReplica): boolean {
  const hash = createHash("sha256");
  for (const piece of piecesOf(copy)) hash.update(piece);
  return hash.digest("hex") === copy.sha256;
}

/** The replica's bytes in unshared memory. */
function* piecesOf({ memory, bytes }: PartReplica): Generator<Uint8Array> {
  for (let at = 0; at < bytes; at += pieceBytes) {
    yield Uint8Array.from(new Uint8Array(memory, at, Math.min(pieceBytes, bytes - at)));
  }
}
