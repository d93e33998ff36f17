// Where the bytes of a checkpoint store lie: in a directory (directory-place.ts) or in an object
// store (object-place.ts). The rest of the store is the same over both.

import type { FileSource } from "../../disk/held-files.ts";
import type { Damage, Generation, Manifest } from "./checkpoint-store.ts";
import type { StorePaths } from "./store-paths.ts";

/** A file of a checkpoint that is being written, front to back. */
export interface NewFile {
  /** Writes all of `bytes` at `offset`, the end of the file so far. */
  write(bytes: Uint8Array, offset: number): void;
  /** Ends the writing: the bytes then survive a power failure, in a directory. May be repeated. */
  close(): void;
  /** Gives the file its name; before, no reader sees it. May be repeated after a failure. */
  finish(): void;
  /** Removes a file that is not finished. */
  discard(): void;
}

/** The part of a place for threads that read or write parts. `open` takes the paths of `paths`. */
export interface PartPlace extends FileSource {
  /** The directory, or the address of the objects, as the user named it. */
  readonly address: string;
  readonly paths: StorePaths;
  /** Bytes after which a pack is finished (pack-writer.ts); left out: the usual number. */
  readonly packBytes?: number | undefined;
  /** Bytes of a file; undefined: there is none. */
  size(path: string): number | undefined;
  /** Begins the file `name` of a checkpoint. */
  newFile(cut: number, generation: number, name: string): NewFile;
  /** The newest generation that was ever claimed; 0 before the first. */
  newestGeneration(): number;
  /** The process that claimed a generation, for people; undefined where it is unknown. */
  takerOf(generation: number): string | undefined;
}

/** A place, with the job that owns it, and the decisions about which checkpoints count. */
export interface Place extends PartPlace {
  readonly jobIdentity: string;
  /** Manifests that were read before, by their seals. */
  readonly manifests: Map<string, Manifest>;
  /** A small file, whole. Throws the disk's error, or CheckpointCorruptError, if there is none. */
  read(path: string): Uint8Array;
  /** Replaces a small file, whole or not at all; undefined removes it. */
  write(path: string, bytes: Uint8Array | undefined): void;
  /** See `CheckpointStore.beginGeneration`; `sha256` is the hash of `from`. */
  claim(sha256: string | undefined, passOver: readonly string[]): Generation;
  /**
   * The chain, newest first: usable manifests, and damage between them. With `isKnown`, files of
   * checkpoints that this store has checked or committed need not be looked at again.
   */
  chain(isKnown: boolean): Iterable<Manifest | Damage>;
  /** Puts a manifest in place, once its files were checked; then it is on the chain, or refused. */
  putManifest(manifest: Manifest, bytes: Uint8Array): void;
  /** The step from which a generation continued; undefined where that is unknown. */
  beginOf(generation: number): number | undefined;
  /**
   * Names of the checkpoints that lie there, on the chain or off it, sorted by cut. With `isKnown`,
   * new garbage may be missing.
   */
  checkpoints(isKnown: boolean): string[];
  /** Takes the checkpoints with these names off the chain, before any of them is removed. */
  beginRemoval(generation: number, names: readonly string[]): void;
  /** Removes all remaining files of a checkpoint, its manifest first (K3). */
  removeCheckpoint(name: string): void;
  /** Ends a collection: makes the removals durable, and removes files of interrupted calls. */
  tidy(): void;
}
