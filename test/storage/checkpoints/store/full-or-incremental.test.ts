// When a checkpoint is a baseline and when an increment, and what happens to checkpoints that
// increments rest on.

import test from "ava";
import type { Manifest } from "../../../../storage/checkpoints/store/checkpoint-store.ts";
import {
  needsBaseline,
  writtenAfter,
} from "../../../../storage/checkpoints/store/full-or-incremental.ts";

/**
 * Indices of the checkpoints that are baselines, if the increments since a baseline have `sizes`
 * bytes and a baseline has 1000.
 */
function baselines(policy: "one-shot" | "intermittent", sizes: readonly number[]): number[] {
  let latest: Pick<Manifest, "written" | "parts"> | undefined;
  let at = 0;
  const found: number[] = [];
  for (const i of sizes.keys()) {
    const isBaseline = needsBaseline(policy, latest);
    if (isBaseline) found.push(i);
    at = isBaseline ? 0 : at + 1;
    const bytes = isBaseline ? 1000 : (sizes[at - 1] ?? 0);
    const place = { file: "pack", at: 0, sha256: "" };
    const base = isBaseline ? [] : [{ ...place, cut: 0, generation: 1, bytes: 0 }];
    const part = { ...place, name: "a", bytes, base };
    latest = { written: writtenAfter(latest?.written, [part]), parts: [part] };
  }
  return found;
}

test("an intermittent run writes a baseline where that costs no more than going on", (t) => {
  // 1000 + 300 > 2 x 300; 1000 + 800 > 3 x 500; 1000 + 1500 <= 4 x 700.
  t.deepEqual(baselines("intermittent", [300, 500, 700, 800, 900, 0, 0, 0, 0]), [0, 4, 8]);
  // Increments of constant size: going on never costs more than a new baseline.
  t.deepEqual(baselines("intermittent", Array(40).fill(200)), [0]);
  t.deepEqual(baselines("one-shot", Array(40).fill(999)), [0]);
});

test("every checkpoint is a baseline if increments are off; the first one always is", (t) => {
  const latest = { written: { baseline: 10, differences: 3, sum: 3, last: 1 }, parts: [] };
  t.true(needsBaseline("none", latest));
  for (const policy of ["one-shot", "consecutive", "intermittent"] as const) {
    t.true(needsBaseline(policy, undefined));
    t.false(needsBaseline(policy, latest));
  }
});

test("a chain of consecutive increments ends", (t) => {
  const written = { baseline: 10, sum: 64, last: 1 };
  const after = (differences: number, parts: Manifest["parts"] = []) =>
    needsBaseline("consecutive", { written: { ...written, differences }, parts });
  t.false(after(63));
  t.true(after(64));
  // With very many parts the chain ends earlier: each manifest lists all files of all parts.
  const place = { file: "pack", at: 0, bytes: 1, sha256: "" };
  const many = (increments: number) =>
    Array.from({ length: 20_000 }, (_, i) => ({
      ...{ ...place, name: `part-${i}` },
      base: Array.from({ length: increments }, (_, cut) => ({ ...place, cut, generation: 1 })),
    }));
  t.false(after(4, many(4)));
  t.true(after(5, many(5)));
});
