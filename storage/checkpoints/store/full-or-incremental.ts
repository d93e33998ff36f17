// Decides when a checkpoint is a baseline, which needs no other, and when it is an increment, which
// holds only the rows that changed (Check-N-Run, Eisenman et al., NSDI 2022):
//
//   none           every checkpoint is a baseline
//   one-shot       the first is a baseline; each later one holds the changes since the first
//   consecutive    a baseline, then up to 64 increments, fewer of very many parts, each with the
//                  changes since the checkpoint before it; a restore needs all of them
//   intermittent   as one-shot, until a new baseline is expected to cost less

import type { CheckpointSpec } from "../../../src/training/checkpoint/checkpoint-options.ts";
import type { Manifest, PartRecord } from "./checkpoint-store.ts";

/** Most increments after a baseline: it bounds the files that a restore reads for one part. */
const incrementsMax = 64;

/**
 * Most parts that a manifest names, bases included: 20,000 parts and four bases of each, in 7 MB.
 * The leader reads and writes manifests whole.
 */
const namedMax = 100_000;

/** Whether the checkpoint after `latest` is to be a baseline. `undefined`: there is none yet. */
export function needsBaseline(
  policy: CheckpointSpec["differential"],
  latest: Pick<Manifest, "written" | "parts"> | undefined,
): boolean {
  if (policy === "none" || latest === undefined) return true;
  const { baseline, differences, sum, last } = latest.written;
  if (policy === "one-shot" || differences === 0) return false;
  if (policy === "consecutive") {
    const named = latest.parts.reduce((count, { base }) => count + base.length + 1, 0);
    return differences >= incrementsMax || named > namedMax;
  }
  // Whether writing a new baseline, followed by increments that grow as these did, costs no more
  // than continuing with increments of the last size.
  return baseline + sum <= (differences + 1) * last;
}

/** Updates the written bytes with those of a checkpoint's parts; a baseline restarts the count. */
export function writtenAfter(
  before: Manifest["written"] | undefined,
  parts: readonly PartRecord[],
): Manifest["written"] {
  const last = parts.reduce((bytes, part) => bytes + part.bytes, 0);
  const isBaseline = parts.every(({ base }) => base.length === 0);
  if (isBaseline || before === undefined) {
    return { baseline: last, differences: 0, sum: 0, last: 0 };
  }
  const { baseline, differences, sum } = before;
  return { baseline, differences: differences + 1, sum: sum + last, last };
}
