// The checkpoint store: where the truth about a run lives (law 6).
//
// A checkpoint is all parts of one cut, and it exists when its manifest does (law 2). Manifests are
// a chain. Each restore begins a generation, which goes on from one manifest of the chain; from
// then on nothing that an older generation still writes can join it (law 3).
//
//   generation 1   10 ── 20    30            30 came after generation 2 had begun: off the chain
//   generation 2          └─── 30 ── 40
//
// Every call is synchronous: whoever makes it owns its thread. A store may be open in many threads
// and processes at once.

/** A file of a checkpoint. */
export interface PartFile {
  readonly bytes: number;
  /** Hexadecimal. */
  readonly sha256: string;
}

/** The file of the same part in an earlier checkpoint of the chain. */
export interface BasePart extends PartFile {
  readonly cut: number;
  readonly generation: number;
}

/** A part of a checkpoint. */
export interface PartRecord extends PartFile {
  readonly name: string;
  /**
   * What the part rests on, where it holds only what changed: whole first, then differences, oldest
   * first. Empty: the part is whole.
   */
  readonly base: readonly BasePart[];
}

/** Bytes of all files that a part is made of. */
export function bytesToRead({ bytes, base }: PartRecord): number {
  return base.reduce((sum, one) => sum + one.bytes, bytes);
}

/** Bytes of the parts written since the baseline, the last checkpoint that rests on no other. */
export interface Written {
  readonly baseline: number;
  /** Checkpoints since then, their bytes together, and those of the last. */
  readonly differences: number;
  readonly sum: number;
  readonly last: number;
}

/** What a committer says about its checkpoint. */
export interface ManifestFields {
  /** Name of the run. */
  readonly run: string;
  /** The step number that the parts belong to. */
  readonly cut: number;
  readonly generation: number;
  readonly parts: readonly PartRecord[];
  /** Tree hash over the whole state, the same from any placement. */
  readonly modelDigest: string;
  /** The arithmetic that the run began with. */
  readonly arithmetic: string;
  /** JSON: the metrics at this cut, and the state of early stopping. */
  readonly metrics: unknown;
  /** JSON: where the readers go on. */
  readonly position: unknown;
  /** Whether this checkpoint is the best so far. */
  readonly best: boolean;
  /** Who wrote it: host, process and version, for people. */
  readonly createdBy: string;
  /** How its generation began, where not all was put back. @default "exact" */
  readonly restored?: Descent["restored"] | undefined;
}

/** A generation that trained a part of what a checkpoint is. */
export interface Descent {
  readonly generation: number;
  /** The step from which it trained: that of the checkpoint that it went on from; 0: none. */
  readonly from: number;
  /** Whether all of it was put back there; `partial`: some rows were lost (bounded jobs). */
  readonly restored: "exact" | "partial";
}

/** A committed checkpoint. Plain data; it crosses threads. */
export interface Manifest extends Omit<ManifestFields, "restored"> {
  readonly version: number;
  /** Hash of the job's specification. */
  readonly jobIdentity: string;
  readonly written: Written;
  /** The generations that it came from, oldest first: the newest of them, where they are many. */
  readonly lineage: readonly Descent[];
  /** The manifest before this one on the chain; null for the first. */
  readonly parent: { readonly file: string; readonly sha256: string } | null;
  /** Hash of this manifest's own text. */
  readonly sha256: string;
}

/** A checkpoint of the chain that cannot be used, and why. */
export interface Damage {
  readonly path: string;
  readonly reason: string;
}

/** Where a new generation goes on. */
export interface Generation {
  readonly generation: number;
  /** The newest usable checkpoint; undefined where there is none: start from step 0. */
  readonly latest: Manifest | undefined;
  /** Newer checkpoints that were passed over. */
  readonly damaged: readonly Damage[];
}

/** Writes one part. It is no part of any checkpoint before `finish` and a commit that names it. */
export interface PartWriter {
  /** Appends; the caller keeps the buffer. @throws StoreFailedError, GenerationFencedError */
  write(bytes: Uint8Array): void;
  /**
   * Returns once the bytes are on disk; `base` is empty.
   * @throws StoreFailedError, GenerationFencedError
   */
  finish(): PartRecord;
  /** Gives up an unfinished part. Nothing happens after `finish`. */
  discard(): void;
}

export interface CheckpointStore {
  /** Where it is, as the user named it. */
  readonly directory: string;
  /** The job's specification, as it was given when the store was first opened. */
  readonly jobText: string;

  /**
   * Claims the next generation: all older ones are fenced from here on. Of two callers at once,
   * each gets its own number, and the higher one is in charge. It goes on from the newest usable
   * checkpoint, or from one of the chain that is named: those after it are then off the chain.
   * Those whose manifests have the hashes `passOver` are damaged, as somebody found who read them.
   * @throws CheckpointForeignError, InputUnusableError (the directory refuses writes),
   * StoreFailedError, CheckpointMissingError (`from` is not of the chain)
   */
  beginGeneration(from?: Manifest, passOver?: readonly string[]): Generation;

  /**
   * Opens a part of checkpoint `cut`; `name` is a lower-case file name. From any thread.
   * @throws GenerationFencedError, StoreFailedError
   */
  partWriter(generation: number, cut: number, name: string): PartWriter;

  /**
   * Makes the checkpoint exist, once every part is on disk with its size. `cut` grows within a
   * generation and does not fall below where the generation went on.
   * @throws GenerationFencedError, StoreFailedError, CheckpointCorruptError (a part is not there)
   */
  commit(fields: ManifestFields): Manifest;

  /** The newest usable checkpoint of the chain. */
  latest(): Manifest | undefined;

  /** The chain, newest first, and what is damaged in it. Parts are checked by size only. */
  list(): { readonly manifests: readonly Manifest[]; readonly damaged: readonly Damage[] };

  /**
   * Reads every part of a checkpoint, and what it rests on, and compares.
   * @throws CheckpointCorruptError naming the file
   */
  verify(manifest: Manifest): void;

  /**
   * The bytes of a part's own file, in pieces that are overwritten by the next one. Whether they
   * are right is known at the end: use nothing before the iteration has returned.
   * @throws CheckpointCorruptError naming the file, CheckpointMissingError (no such part)
   */
  readPart(manifest: Manifest, name: string): Generator<Uint8Array, void, undefined>;

  /** The same, in memory that the caller owns. Errors as `readPart`. */
  readWholePart(manifest: Manifest, name: string): Uint8Array;

  /**
   * All that a part is made of: its own file first, then what it rests on, newest first. Each is
   * opened when it is iterated over. Otherwise as `readPart`.
   */
  readLayers(manifest: Manifest, name: string): Generator<Uint8Array, void, undefined>[];

  /**
   * Removes all but the newest `keep` checkpoints, the best one and what those rest on, with what
   * unfinished writers left behind. Reads the newest one back first, and removes nothing if that
   * fails. `generation` is the caller's; what newer ones write is left alone. Returns the names
   * removed.
   * @throws CheckpointCorruptError, GenerationFencedError, StoreFailedError, InvalidOptionError
   */
  collect(options: { readonly generation: number; readonly keep: number }): string[];
}
