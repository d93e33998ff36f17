// Parses the label of a line. The result depends only on its text and on the option `positive`.
//
//   without `positive`   1: any decimal equal to 1, and `true` in any case
//                        0: any decimal equal to 0 or -1, and `false` in any case
//   with `positive`      1: one of its texts, or a decimal equal to one of its numbers
//                        0: any other text, except one that stands for a missing value
//
//   numeric label        any finite decimal, rounded to float32
//
// Any other text, or none, makes the line bad, except a missing value for which the job defines a
// rule.

import type { MissingLabel } from "../column-options.ts";
import { exactOf, isNumber } from "../columnar/exact-values.ts";
import { type LineFault, show } from "./faults.ts";

/** Parses a label to its number or its fault. The text has one byte per character. */
export type LabelReader = (text: string) => number | LineFault;

/** The label or labels that a job names as positive. */
export type PositiveLabels = string | number | boolean | readonly (string | number | boolean)[];

/** Creates the reader of class labels under the option `positive`. */
export function labelReader(positive: PositiveLabels | undefined): LabelReader {
  if (positive === undefined) return usualLabel;
  const named = typeof positive === "object" ? positive : [positive];
  const texts = new Set(named.map((one) => Buffer.from(String(one), "utf8").toString("latin1")));
  const numbers = new Set([...texts].flatMap((text) => numberIn(text) ?? []));
  const exact = new Set([...texts].flatMap((text) => exactKey(text) ?? []));
  return (text) => {
    if (texts.has(text)) return 1;
    const trimmed = text.trim();
    if (texts.has(trimmed)) return 1;
    if (missing.has(trimmed.toLowerCase()))
      return { kind: "the label is missing", got: show(text) };
    // Shorter texts are exact as float64.
    if (trimmed.length >= 16) return exact.has(exactKey(trimmed) ?? "") ? 1 : 0;
    const value = numberIn(trimmed);
    return value !== undefined && numbers.has(value) ? 1 : 0;
  };
}

/** Texts that stand for a missing value, in lower case. */
const missing = new Set(["", "na", "n/a", "nan", "null", "none", "\\n", "?"]);

function usualLabel(text: string): 0 | 1 | LineFault {
  if (text === "0") return 0;
  if (text === "1") return 1;
  const trimmed = text.trim();
  switch (numberIn(trimmed) ?? trimmed.toLowerCase()) {
    case 1:
    case "true":
      return 1;
    case 0:
    case -1:
    case "false":
      return 0;
    default:
      return {
        kind: "expected the label to be 0 or 1",
        got: show(text),
        advice: "name the label that counts as positive with `positive`",
      };
  }
}

/** Creates the reader of the numeric label `name`. */
export function numberReader(name: string): LabelReader {
  return (text) => {
    const value = Math.fround(numberIn(text.trim()) ?? Number.NaN);
    if (Number.isFinite(value)) return value;
    return { kind: `expected the label \`${name}\` to be a finite number`, got: show(text) };
  };
}

/**
 * Creates a reader of the label `name` that handles missing values: `mask` gives NaN, `negative` 0,
 * and undefined a fault that names the option.
 */
export function gapReader(
  read: LabelReader,
  name: string,
  whenMissing: MissingLabel | undefined,
): LabelReader {
  return (text) => {
    const label = read(text);
    if (typeof label === "number" || !missing.has(text.trim().toLowerCase())) return label;
    if (whenMissing !== undefined) return whenMissing === "mask" ? Number.NaN : 0;
    const advice =
      `\`missing: mask\` of the task \`${name}\` in \`model.tasks\` trains the other tasks on ` +
      "such a row";
    return { kind: `the label \`${name}\` is missing`, got: show(text), advice };
  };
}

/** A canonical key of a decimal: equal for all texts of the same number. */
function exactKey(text: string): string | undefined {
  const exact = numberIn(text) === undefined ? undefined : exactOf(text);
  return exact && `${exact.digits}e-${exact.scale}`;
}

function numberIn(text: string): number | undefined {
  return isNumber(text) ? Number(text) : undefined;
}
