// Reads the label of a line: a function of its text alone, and of the option `positive`.
//
//   without `positive`   1: any decimal equal to 1, and `true` in any case
//                        0: any decimal equal to 0 or -1, and `false` in any case
//   with `positive`      1: one of its texts, or a decimal equal to one of its numbers
//                        0: any other text, but not what stands for a missing value
//
//   of numbers           any finite decimal, rounded to float32
//
// Any other text, and none, is a bad line; what stands for a missing value is not where the job
// says what becomes of it.

import type { MissingLabel } from "../column-options.ts";
import { exactOf } from "../columnar/exact-values.ts";
import { type Fault, show } from "./faults.ts";

/** Reads a label: its number, or its fault. Each character is one byte. */
export type LabelReader = (text: string) => number | Fault;

/** What a job may name as positive. */
export type PositiveLabels = string | number | boolean | readonly (string | number | boolean)[];

/** The reader of labels under the option `positive`. */
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
    // Fewer characters are exact as a number.
    if (trimmed.length >= 16) return exact.has(exactKey(trimmed) ?? "") ? 1 : 0;
    const value = numberIn(trimmed);
    return value !== undefined && numbers.has(value) ? 1 : 0;
  };
}

/** What files write for a missing value, in small letters. */
const missing = new Set(["", "na", "n/a", "nan", "null", "none", "\\n", "?"]);

function usualLabel(text: string): 0 | 1 | Fault {
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

/** The reader of the label `name`, which is a number. */
export function numberReader(name: string): LabelReader {
  return (text) => {
    const value = Math.fround(numberIn(text.trim()) ?? Number.NaN);
    if (Number.isFinite(value)) return value;
    return { kind: `expected the label \`${name}\` to be a finite number`, got: show(text) };
  };
}

/**
 * A reader of the label `name`, one of several, of which a missing value becomes `whenMissing`:
 * NaN of a masked one; undefined: a fault that names the option.
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

/** All digits of a decimal, the same for each text of one number. */
function exactKey(text: string): string | undefined {
  const exact = numberIn(text) === undefined ? undefined : exactOf(text);
  return exact && `${exact.digits}e-${exact.scale}`;
}

const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function numberIn(text: string): number | undefined {
  return decimal.test(text) ? Number(text) : undefined;
}
