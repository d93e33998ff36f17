// Identifies the data that a run was trained and evaluated on, in a form small enough for the
// manifest of a checkpoint. A path says where data are, a digest says which data they are.

import { createHash } from "node:crypto";
import { type CacheMeta, cacheVersion, earlyVersion } from "./cache/cache-format.ts";
import type { IkjtGroups } from "./sessions/ikjt.ts";
import type { SplitStarts } from "./split-starts.ts";

/** Identity of one dataset. Plain data, sent between hosts and stored in manifests. */
export interface DataContents {
  readonly samples: number;
  /** SHA-256 of all samples, in the encoding of version `version` (cache-format.ts). */
  readonly digest: string;
  readonly version: number;
  /** The digest of the early index of the same files (version 7), if a run began with it. */
  readonly earlyDigest?: string | undefined;
  /** SHA-256 over the hashes of all files' text; undefined for generated data and older caches. */
  readonly text?: string | undefined;
  /** The first files, in order, each with a prefix of the SHA-256 of its text. */
  readonly files: readonly { readonly path: string; readonly sha256: string }[];
}

/** Identities of a run's datasets, and the order of its training samples. */
export interface RunContents {
  readonly training: DataContents;
  /** Number of training samples, unless it follows from `evaluation.fraction` alone. */
  readonly trained?: number | undefined;
  /**
   * Data of the evaluation; left out if it is a held-out part of the training data, or if there is
   * no evaluation.
   */
  readonly evaluation?: DataContents | undefined;
  /** Data of the test; left out by the same rule. */
  readonly test?: DataContents | undefined;
  /** Samples per split, if samples come in the split order. */
  readonly splitSamples?: number | undefined;
  /** The splits, if they are row groups or whole sessions. */
  readonly splits?: RowGroupSplits | undefined;
  /** Groups of features whose lists are deduplicated together, if any. */
  readonly ikjt?: IkjtGroups | undefined;
}

/**
 * Splits that are row groups of the files or whole sessions, and the number of splits that are read
 * in parallel.
 */
export interface RowGroupSplits extends SplitStarts {
  /** Number of splits that a batch draws from; at most the job's number of slices. */
  readonly lanes: number;
  /**
   * Whether the samples of a split keep their order, as they do if splits are whole sessions.
   * @default false
   */
  readonly keepsOrder?: boolean | undefined;
}

/** Number of files whose hashes every manifest stores, to name the file that changed. */
const filesMax = 100;
/** Hexadecimal digits stored of a file's hash: enough to distinguish its versions. */
const fileDigits = 16;

/** The identity of the dataset in a cache. */
export function contentsOf({
  samples,
  digest,
  sources,
  version = cacheVersion,
  earlyDigest,
}: CacheMeta): DataContents {
  const hashes = (sources ?? []).flatMap(({ path, sha256 }) =>
    sha256 === undefined ? [] : [{ path, sha256 }],
  );
  const early = earlyDigest === undefined ? {} : { earlyDigest };
  const contents = { samples, digest, version, ...early, files: [] };
  if (hashes.length === 0) return contents;
  const hash = createHash("sha256");
  for (const { sha256 } of hashes) hash.update(`${sha256}\n`);
  const files = hashes.slice(0, filesMax).map(({ path, sha256 }) => {
    return { path, sha256: sha256.slice(0, fileDigits) };
  });
  return { ...contents, text: hash.digest("hex"), files };
}

/** The contents recorded in a checkpoint's metrics; undefined in an older checkpoint. */
export function recordedContents(metrics: unknown): RunContents | undefined {
  const { contents } = (metrics ?? {}) as { readonly contents?: RunContents };
  return contents;
}

/**
 * The contents of a resumed run. Sample order and deduplicated lists stay those that the run began
 * with, even if a new run on the same data would choose others. `then`: the recorded contents;
 * undefined for a run of an older release, and for a run without a trained step (`isNew`).
 */
export function inOrderOf(
  then: RunContents | undefined,
  now: RunContents,
  isNew: boolean,
): RunContents {
  if (then === undefined && isNew) return now;
  return { ...now, splitSamples: then?.splitSamples, splits: then?.splits, ikjt: then?.ikjt };
}

/** Whether both have the same samples, as far as caches of different versions are comparable. */
export function haveSameSamples(one: DataContents, other: DataContents): boolean {
  if (one.version === other.version) return one.digest === other.digest;
  const [oneEarly, otherEarly] = [one, other].map((of) => {
    return of.version === earlyVersion ? of.digest : of.earlyDigest;
  });
  if (oneEarly !== undefined && otherEarly !== undefined) return oneEarly === otherEarly;
  if (one.text !== undefined && other.text !== undefined) return one.text === other.text;
  return one.samples === other.samples;
}

/**
 * Indices of the files of `now` whose text differs from that of the file at the same index in
 * `then`. Empty if the same text is merely decoded differently, or the files are unknown.
 */
export function changedFiles(then: DataContents, now: DataContents): number[] {
  return now.files.flatMap(({ sha256 }, i) =>
    then.files[i] !== undefined && then.files[i]?.sha256 !== sha256 ? [i] : [],
  );
}
