// The splits of the session order: runs of whole sessions, whose samples keep the order of the
// data. A session is a run of samples with one group (targets.ts), as sessions stand in clustered
// data.

import assert from "node:assert/strict";
import { InputUnusableError } from "../../errors/errors.ts";
import { type Dataset, memoryFor } from "../dataset.ts";

/** Splits of a run, at most: where each begins stands in every manifest. */
const splitsMax = 16_384;
/** Samples that are read at a time. */
const chunk = 4096;

/** What messages name. */
export interface NamedSamples {
  /** The column that names the session. */
  readonly column: string;
  /** The path of the data. */
  readonly path: string;
  /** Where a sample lies; undefined: it is not known. */
  placeOf(sample: number): string | undefined;
}

/**
 * The first sample of each split, and the end: whole sessions each, of as few samples as
 * `splitsMax` splits allow.
 * @throws InputUnusableError where the samples of a session lie in several places
 */
export async function sessionSplits(dataset: Dataset, named: NamedSamples): Promise<number[]> {
  const samplesMin = Math.ceil(dataset.samples / splitsMax);
  const starts = [0];
  const seen = new Set<number>();
  const again: number[] = [];
  let before: number | undefined;
  let sample = 0;
  for await (const group of groupsIn(dataset)) {
    if (group !== before) {
      if (seen.has(group)) again.push(sample);
      seen.add(group);
      if (sample - (starts.at(-1) ?? 0) >= samplesMin) starts.push(sample);
      before = group;
    }
    sample++;
  }
  const [first] = again;
  if (first !== undefined && again.length > sharedHashes(seen.size)) throw apart(named, first);
  return [...starts, dataset.samples];
}

/** Sessions that may seem to lie in two places, as two of so many may share a hash (targets.ts). */
function sharedHashes(sessions: number): number {
  return Math.floor((8 * sessions ** 2) / 2 ** 49);
}

function apart({ column, path, placeOf }: NamedSamples, sample: number): InputUnusableError {
  const place = placeOf(sample) ?? `sample ${sample} (of those that are trained, from 0)`;
  const message =
    `The order "sessions" needs the samples of a session side by side, and ${place} has a ` +
    `\`${column}\` of samples further ahead: cluster the ` +
    "files with `osiris cluster-sessions`, or choose another `data.order`";
  return new InputUnusableError(path, message);
}

/** The group of each sample, in order: 48 bits. */
async function* groupsIn(dataset: Dataset): AsyncGenerator<number> {
  assert(dataset.targets.hasGroups, "samples that have groups");
  const batch = memoryFor(dataset, Math.min(chunk, dataset.samples));
  const { groups = new Float32Array(0) } = batch;
  for (let first = 0; first < dataset.samples; first += chunk) {
    const count = Math.min(chunk, dataset.samples - first);
    await dataset.hold([{ first, end: first + count }], []);
    const indices = Uint32Array.from({ length: count }, (_, i) => first + i);
    dataset.read(indices, batch);
    for (let b = 0; b < count; b++) {
      yield (groups[b] ?? 0) * 2 ** 24 + (groups[count + b] ?? 0);
    }
  }
}
