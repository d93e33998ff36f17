import test from "ava";
import { needsBaseline, writtenAfter } from "../../storage/baselines.ts";
import type { Written } from "../../storage/checkpoint-store.ts";

/** Which of some checkpoints are baselines, where differences since one are as large as `sizes`. */
function baselines(policy: "one-shot" | "intermittent", sizes: readonly number[]): number[] {
  let written: Written | undefined;
  let at = 0;
  const found: number[] = [];
  for (const i of sizes.keys()) {
    const isBaseline = needsBaseline(policy, written);
    if (isBaseline) found.push(i);
    at = isBaseline ? 0 : at + 1;
    const bytes = isBaseline ? 1000 : (sizes[at - 1] ?? 0);
    const file = { cut: 0, generation: 1, bytes: 0, sha256: "" };
    const part = { name: "a", bytes, sha256: "", base: isBaseline ? [] : [file] };
    written = writtenAfter(written, [part]);
  }
  return found;
}

test("an intermittent run writes a baseline where the same history again costs no more", (t) => {
  // 1000 + 300 > 2 x 300; 1000 + 800 > 3 x 500; 1000 + 1500 <= 4 x 700.
  t.deepEqual(baselines("intermittent", [300, 500, 700, 800, 900, 0, 0, 0, 0]), [0, 4, 8]);
  // Nothing grows: going on is always as cheap as it was.
  t.deepEqual(baselines("intermittent", Array(40).fill(200)), [0]);
  t.deepEqual(baselines("one-shot", Array(40).fill(999)), [0]);
});

test("every checkpoint is a baseline where a job wants no differences; the first one always", (t) => {
  const written = { baseline: 10, differences: 3, sum: 3, last: 1 };
  t.true(needsBaseline("none", written));
  for (const policy of ["one-shot", "consecutive", "intermittent"] as const) {
    t.true(needsBaseline(policy, undefined));
    t.false(needsBaseline(policy, written));
  }
});

test("a chain of consecutive differences ends", (t) => {
  const written = { baseline: 10, sum: 64, last: 1 };
  t.false(needsBaseline("consecutive", { ...written, differences: 63 }));
  t.true(needsBaseline("consecutive", { ...written, differences: 64 }));
});
