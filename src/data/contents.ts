// What a run was trained and evaluated on: the contents of its data, small enough for the manifest
// of a checkpoint. A path says where data lies, its contents say which data it is.

import { createHash } from "node:crypto";
import { type CacheMeta, cacheVersion } from "./cache/cache-format.ts";
import type { IkjtGroups } from "./sessions/ikjt.ts";

/** The contents of one dataset. Plain data: it crosses the wire and lies in manifests. */
export interface DataContents {
  readonly samples: number;
  /** SHA-256 of all samples, as a cache of version `version` has them. */
  readonly digest: string;
  readonly version: number;
  /** SHA-256 of all files' text; undefined: generated, or of an older cache. */
  readonly text?: string | undefined;
  /** The first files, in order, with the beginning of the SHA-256 of the text of each. */
  readonly files: readonly { readonly path: string; readonly sha256: string }[];
}

/** The contents of the data of a run. */
export interface RunContents {
  readonly training: DataContents;
  /** Samples that are trained on, where that does not follow from `evaluation.fraction` alone. */
  readonly trained?: number | undefined;
  /** Left out where a part of the training data is held out, or nothing is evaluated. */
  readonly evaluation?: DataContents | undefined;
  /** The same of the test. */
  readonly test?: DataContents | undefined;
  /** Samples of a split, where the samples come in the split order. */
  readonly splitSamples?: number | undefined;
  /** The splits, where they are the row groups of the files, or whole sessions. */
  readonly splits?: RowGroupSplits | undefined;
  /** Features whose lists are deduplicated together; left out: none. */
  readonly ikjt?: IkjtGroups | undefined;
}

/**
 * Splits that are row groups of the files, or whole sessions, and in how many lanes a batch goes
 * through them.
 */
export interface RowGroupSplits {
  /** The first sample of each split among those that are trained on, and the end. */
  readonly starts: readonly number[];
  /** Splits that a batch is drawn from: no more than the job has slices. */
  readonly lanes: number;
  /** Whether the samples of a split keep their order: splits are whole sessions. @default false */
  readonly keepsOrder?: boolean | undefined;
}

/** Files whose hashes stand in every manifest: enough to name the one that changed. */
const filesMax = 100;
/** Hexadecimal digits of a file's hash: enough to tell its versions apart. */
const fileDigits = 16;

/** The contents of a dataset with this cache. */
export function contentsOf({ samples, digest, sources }: CacheMeta): DataContents {
  const hashes = (sources ?? []).flatMap(({ path, sha256 }) =>
    sha256 === undefined ? [] : [{ path, sha256 }],
  );
  const contents = { samples, digest, version: cacheVersion, files: [] };
  if (hashes.length === 0) return contents;
  const hash = createHash("sha256");
  for (const { sha256 } of hashes) hash.update(`${sha256}\n`);
  const files = hashes.slice(0, filesMax).map(({ path, sha256 }) => {
    return { path, sha256: sha256.slice(0, fileDigits) };
  });
  return { ...contents, text: hash.digest("hex"), files };
}

/** The contents that a checkpoint's metrics name; undefined: an older checkpoint names none. */
export function recordedContents(metrics: unknown): RunContents | undefined {
  const { contents } = (metrics ?? {}) as { readonly contents?: RunContents };
  return contents;
}

/**
 * The contents of a run that goes on: its samples come in the order that it began with, and the
 * same lists are deduplicated, whatever a new run on the same data would have. `then`: what the run
 * recorded, undefined in a run of before contents were recorded, and in one that has not trained a
 * step, which `isNew` says.
 */
export function inOrderOf(
  then: RunContents | undefined,
  now: RunContents,
  isNew: boolean,
): RunContents {
  if (then === undefined && isNew) return now;
  return { ...now, splitSamples: then?.splitSamples, splits: then?.splits, ikjt: then?.ikjt };
}

/** Whether both have the same samples, as far as caches of two versions can tell. */
export function haveSameSamples(one: DataContents, other: DataContents): boolean {
  if (one.version === other.version) return one.digest === other.digest;
  if (one.text !== undefined && other.text !== undefined) return one.text === other.text;
  return one.samples === other.samples;
}

/**
 * The places of the files of `now` whose text is not that of the file in the same place of `then`;
 * empty where the same text is read in another way, or the files are not known.
 */
export function changedFiles(then: DataContents, now: DataContents): number[] {
  return now.files.flatMap(({ sha256 }, i) =>
    then.files[i] !== undefined && then.files[i]?.sha256 !== sha256 ? [i] : [],
  );
}
