// Checks of all samples before training, where lists repeat in sessions: the samples of a session
// lie side by side, so that splits of whole sessions keep the order of the data; and the lists of
// an aligned group are equally long. A session is a run of samples with the same group
// (targets.ts), as in clustered data.

import assert from "node:assert/strict";
import { InputUnusableError } from "../../errors/errors.ts";
import { type Dataset, memoryFor, type SampleNumbers } from "../dataset.ts";
import { packedMax } from "../split-starts.ts";
import type { IkjtSpec } from "./ikjt-options.ts";

/** Samples read at a time. */
const chunk = 4096;

/** Names of the data, for error messages. */
export interface NamedSamples {
  /** The column that names the session. */
  readonly column: string;
  /** The path of the data. */
  readonly path: string;
  /** Position of a sample in the files, if known. */
  placeOf(sample: number): string | undefined;
}

/**
 * First sample of each split, then the end. Splits are whole sessions, as short as `packedMax`
 * allows: manifests store them.
 * @throws InputUnusableError if the samples of a session are not adjacent
 */
export async function sessionSplits(dataset: Dataset, named: NamedSamples): Promise<SampleNumbers> {
  const samplesMin = Math.ceil(dataset.samples / packedMax);
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
  return Float64Array.from([...starts, dataset.samples]);
}

/**
 * Tolerated number of apparently scattered sessions: different sessions may share a 48-bit hash
 * (targets.ts). It is eight times the expected number of collisions.
 */
function sharedHashes(sessions: number): number {
  return Math.floor((8 * sessions ** 2) / 2 ** 49);
}

function apart({ column, path, placeOf }: NamedSamples, sample: number): InputUnusableError {
  const place = placeOf(sample) ?? `sample ${sample} (counted from 0 among the training samples)`;
  const message =
    `The order "sessions" needs the samples of a session side by side, and ${place} has a ` +
    `\`${column}\` of samples further ahead: cluster the ` +
    "files with `osiris cluster-sessions`, or choose another `data.order`";
  return new InputUnusableError(path, message);
}

/** The group of each sample, in order: 48 bits. */
async function* groupsIn(dataset: Dataset): AsyncGenerator<number> {
  assert(dataset.targets.hasGroups, "samples that have groups");
  const batch = memoryFor(dataset, Math.min(chunk, dataset.samples), 0);
  const { groups = new Float32Array(0) } = batch;
  for (let first = 0; first < dataset.samples; first += chunk) {
    const count = Math.min(chunk, dataset.samples - first);
    await dataset.hold([{ first, end: first + count }], []);
    const indices = Float64Array.from({ length: count }, (_, i) => first + i);
    dataset.read(indices, batch);
    for (let b = 0; b < count; b++) {
      yield (groups[b] ?? 0) * 2 ** 24 + (groups[count + b] ?? 0);
    }
  }
}

/**
 * Reads and checks all samples, if `data.ikjt.aligned` is set: in each sample the lists of a group,
 * such as ids and their times, are equally long. `features`: names of the features, in order.
 * @throws InputUnusableError naming the first sample whose lists differ in length, and both lists
 */
export async function checkAligned(
  dataset: Dataset,
  { groups, aligned }: IkjtSpec,
  features: readonly string[],
  { path, placeOf }: Omit<NamedSamples, "column">,
): Promise<void> {
  if (!aligned || groups === "auto") return;
  const places = groups.map((names) => names.map((name) => features.indexOf(name)));
  const batch = memoryFor(dataset, Math.min(chunk, dataset.samples), 0);
  for (let first = 0; first < dataset.samples; first += chunk) {
    const count = Math.min(chunk, dataset.samples - first);
    await dataset.hold([{ first, end: first + count }], []);
    const indices = Float64Array.from({ length: count }, (_, i) => first + i);
    dataset.read(indices, batch);
    for (const [group, own] of places.entries()) {
      const [head = 0, ...others] = own;
      for (let b = 0; b < count; b++) {
        const length = batch.lengths[head * count + b] ?? 0;
        const other = others.find((feature) => batch.lengths[feature * count + b] !== length);
        if (other === undefined) continue;
        const place =
          placeOf(first + b) ?? `sample ${first + b} (counted from 0 among the training samples)`;
        const lists = [head, other].map((feature) => {
          return `${batch.lengths[feature * count + b]} of \`${features[feature]}\``;
        });
        const message =
          `\`data.ikjt.groups[${group}]\` has lists of one length, and ${place} has ${lists.join(" and ")}: ` +
          "correct the data, or leave `aligned` out";
        throw new InputUnusableError(path, message);
      }
    }
  }
}
