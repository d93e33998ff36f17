// The targets of a sample: one label per task, a class or a number; the weight of its loss; and the
// group in which its prediction is ranked (for example a user), which is no input of the model. A
// job that names a single label has the same data as in releases without other targets.

import type { MissingLabel } from "./column-options.ts";
import { namesColumns } from "./data-kinds.ts";
import { murmurHash3 } from "./murmur-hash.ts";
import type { ResolvedDataOptions } from "./options.ts";

/** The targets that the samples of a dataset have. */
export interface Targets {
  /** Labels of a sample, at least one. */
  readonly labels: number;
  readonly hasSampleWeights: boolean;
  readonly hasGroups: boolean;
  /**
   * Whether a label may be missing. It is then NaN, and its task has no loss on the sample.
   * @default false
   */
  readonly hasGaps?: boolean | undefined;
}

/** The targets of a job that names a single label. */
export const oneLabel: Targets = { labels: 1, hasSampleWeights: false, hasGroups: false };

/** The targets of a job's data. */
export function targetsOf(data: ResolvedDataOptions): Targets {
  const targets = namedTargetsOf(data);
  return whenMissing(data).includes("mask") ? { ...targets, hasGaps: true } : targets;
}

function namedTargetsOf(data: ResolvedDataOptions): Targets {
  switch (data.kind) {
    case "criteo-tsv":
      return oneLabel;
    case "csv":
    case "jsonl":
    case "arrow":
    case "parquet":
      return {
        labels: labelsOf(data).length,
        hasSampleWeights: data.weight !== undefined,
        hasGroups: data.group !== undefined,
      };
    case "synthetic":
      return {
        labels: labelsOf(data).length,
        hasSampleWeights: data.sampleWeights !== undefined,
        hasGroups: data.groups !== undefined || data.sessions !== undefined,
      };
    default:
      return data satisfies never;
  }
}

/** The names of the labels, in order; for generated data, `label`, `label2`, `label3` … */
export function labelsOf(data: ResolvedDataOptions): readonly string[] {
  if (namesColumns(data)) return typeof data.label === "string" ? [data.label] : data.label;
  const count = data.kind === "synthetic" ? (data.labels ?? 1) : 1;
  return Array.from({ length: count }, (_, i) => nameOfLabel(i));
}

/** The name of label `i` of generated data. */
export function nameOfLabel(i: number): string {
  return i === 0 ? "label" : `label${i + 1}`;
}

/** Whether each label is any finite number; other labels are classes, 0 and 1. */
export function areNumeric(data: ResolvedDataOptions): readonly boolean[] {
  const numeric = data.kind === "criteo-tsv" ? [] : (data.numericLabels ?? []);
  return labelsOf(data).map((name) => numeric.includes(name));
}

/** Handling of missing values, per label; undefined makes the line bad. */
export function whenMissing(data: ResolvedDataOptions): readonly (MissingLabel | undefined)[] {
  const rules = data.kind === "criteo-tsv" ? undefined : data.missingLabels;
  return labelsOf(data).map((name) => rules?.[name]);
}

/** The labels, in the form that an evaluation takes. */
export function scoredLabelsOf(data: ResolvedDataOptions) {
  const numeric = areNumeric(data);
  return labelsOf(data).map((name, i) => ({ name, isNumber: numeric[i] === true }));
}

/** The columns of the targets: labels, then weight and group if the job names them. */
export function targetColumnsOf(data: ResolvedDataOptions): string[] {
  if (!namesColumns(data)) return [...labelsOf(data)];
  return [...labelsOf(data), ...[data.weight, data.group].filter((name) => name !== undefined)];
}

/** Words of the targets in a sample's record in the cache. */
export function targetWords({ labels, hasSampleWeights, hasGroups }: Targets): number {
  return labels + (hasSampleWeights ? 1 : 0) + (hasGroups ? groupWords : 0);
}

/** Numbers per sample in an evaluation: a logit and a label per task, and the group. */
export function scoreWords({ labels, hasGroups }: Targets = oneLabel): number {
  return 2 * labels + (hasGroups ? groupWords : 0);
}

/** Numbers that represent a group. */
export const groupWords = 2;

/**
 * The group of a text, as two 24-bit numbers, which float32 holds exactly. They are two hashes of
 * the text, so that equal texts are equal groups in any file. Among a million groups, any two share
 * a hash with a probability of 0.2 %.
 */
export function groupOf(text: string): readonly [number, number] {
  return [murmurHash3(text, 0x67_726f) >>> 8, murmurHash3(text, 0x75_7073) >>> 8];
}
