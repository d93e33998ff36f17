// When a checkpoint is a baseline, which rests on no other, and when it holds only what changed
// (Check-N-Run, Eisenman et al., NSDI 2022):
//
//   none           every one is a baseline
//   one-shot       the first; the others hold what changed since it
//   consecutive    the first; the others hold what changed since the one before, and rest on all
//   intermittent   as one-shot, until a new baseline is expected to cost less

import type { CheckpointSpec } from "../../src/training/checkpoint/checkpoint-options.ts";
import type { PartRecord, Written } from "./checkpoint-store.ts";

/** Files that a restore may have to read for one part. */
const layersMax = 64;

/** Whether the next checkpoint is to be a baseline; undefined: nothing was written yet. */
export function needsBaseline(
  policy: CheckpointSpec["differential"],
  written: Written | undefined,
): boolean {
  if (policy === "none" || written === undefined) return true;
  const { baseline, differences, sum, last } = written;
  if (policy === "one-shot" || differences === 0) return false;
  if (policy === "consecutive") return differences >= layersMax;
  // A new baseline with the same history after it, or going on at the size of the last.
  return baseline + sum <= (differences + 1) * last;
}

/** What was written once a checkpoint of these parts is. */
export function writtenAfter(before: Written | undefined, parts: readonly PartRecord[]): Written {
  const last = parts.reduce((bytes, part) => bytes + part.bytes, 0);
  const isBaseline = parts.every(({ base }) => base.length === 0);
  if (isBaseline || before === undefined) {
    return { baseline: last, differences: 0, sum: 0, last: 0 };
  }
  const { baseline, differences, sum } = before;
  return { baseline, differences: differences + 1, sum: sum + last, last };
}
