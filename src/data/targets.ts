// What a sample has beside its features: one label for each task, a class or a number, the weight
// of its loss, and the group in which its prediction is ranked (a user, say: the model is never
// told). Columns name them, and a job that names one label alone has the data of before there were
// others.

import type { MissingLabel } from "./column-options.ts";
import { namesColumns } from "./data-kinds.ts";
import { murmurHash3 } from "./murmur-hash.ts";
import type { ResolvedDataOptions } from "./options.ts";

/** Which of them the samples of some data have. */
export interface Targets {
  /** Labels of a sample, at least one. */
  readonly labels: number;
  readonly hasSampleWeights: boolean;
  readonly hasGroups: boolean;
  /** Whether a label may be missing: it is NaN then, and its task has no loss. @default false */
  readonly hasGaps?: boolean | undefined;
}

/** Of a job that names one label. */
export const oneLabel: Targets = { labels: 1, hasSampleWeights: false, hasGroups: false };

/** What the samples of a job's data have beside their features. */
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

/** The names of the labels, in order. Of generated data: `label`, `label2`, `label3` … */
export function labelsOf(data: ResolvedDataOptions): readonly string[] {
  if (namesColumns(data)) return typeof data.label === "string" ? [data.label] : data.label;
  const count = data.kind === "synthetic" ? (data.labels ?? 1) : 1;
  return Array.from({ length: count }, (_, i) => nameOfLabel(i));
}

/** The name of label `i` of generated data. */
export function nameOfLabel(i: number): string {
  return i === 0 ? "label" : `label${i + 1}`;
}

/** Of each label, whether it is any finite number; the others are of two classes, 0 and 1. */
export function areNumeric(data: ResolvedDataOptions): readonly boolean[] {
  const numeric = data.kind === "criteo-tsv" ? [] : (data.numericLabels ?? []);
  return labelsOf(data).map((name) => numeric.includes(name));
}

/** Of each label, what a missing value becomes; undefined: the line is bad. */
export function whenMissing(data: ResolvedDataOptions): readonly (MissingLabel | undefined)[] {
  const rules = data.kind === "criteo-tsv" ? undefined : data.missingLabels;
  return labelsOf(data).map((name) => rules?.[name]);
}

/** The labels, as an evaluation takes them. */
export function scoredLabelsOf(data: ResolvedDataOptions) {
  const numeric = areNumeric(data);
  return labelsOf(data).map((name, i) => ({ name, isNumber: numeric[i] === true }));
}

/** The columns that are no features: labels, then weight and group where named. */
export function targetColumnsOf(data: ResolvedDataOptions): string[] {
  if (!namesColumns(data)) return [...labelsOf(data)];
  return [...labelsOf(data), ...[data.weight, data.group].filter((name) => name !== undefined)];
}

/** Words of a sample in the cache for what it has beside its features. */
export function targetWords({ labels, hasSampleWeights, hasGroups }: Targets): number {
  return labels + (hasSampleWeights ? 1 : 0) + (hasGroups ? groupWords : 0);
}

/** Numbers of a sample in an evaluation: a logit and a label for each task, and its group. */
export function scoreWords({ labels, hasGroups }: Targets = oneLabel): number {
  return 2 * labels + (hasGroups ? groupWords : 0);
}

/** Numbers that a group is. */
export const groupWords = 2;

/**
 * The group of a text, in two numbers of 24 bits, which float32 holds exactly: two hashes of the
 * text, so that equal texts are equal groups in any file. Of a million groups, two share a hash
 * with a probability of 0.2 %.
 */
export function groupOf(text: string): readonly [number, number] {
  return [murmurHash3(text, 0x67_726f) >>> 8, murmurHash3(text, 0x75_7073) >>> 8];
}
