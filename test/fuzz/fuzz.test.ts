// The fuzzer finds nothing in some cases of every target, and finds planted faults.

import { readFileSync } from "node:fs";
import test, { type ExecutionContext } from "ava";
import { startDirectory } from "../data/data-files.ts";
import { testAll, testIf } from "../helpers/needs.ts";
import { changedBytes, changedValue, streamOf } from "./mutate.ts";
import { type Finding, runSession, type SessionOptions } from "./session.ts";
import { targets } from "./targets.ts";

/** Runs the fuzzer with the usual addon; returns the counts and the findings. */
async function fuzzed(
  t: ExecutionContext,
  options: Pick<SessionOptions, "catalogue" | "names" | "seed" | "end"> & Partial<SessionOptions>,
) {
  const folder = startDirectory(t);
  const findings: Finding[] = [];
  const counts = await runSession({
    ...{ folder, addon: undefined, first: 0, caseMsMax: 60_000, memoryBytesMax: 2 ** 31 },
    ...{ signal: AbortSignal.timeout(300_000), onProgress: () => {} },
    onFinding: (finding) => findings.push(finding),
    ...options,
  });
  return { counts, findings, folder };
}

// `.ci/nightly` runs the fuzzer for minutes; these tests start a process for all targets, and wait.

/** Targets whose cases write files. */
const slow =
  /^(parquet|arrow|csv|json lines|manifests|parts|deltas|job|rows|records|tenants|\.osiris)/;

testIf(testAll)(
  "every fuzzed reader ends a mutated input with a value or a named error",
  async (t) => {
    const all = targets.map(({ name }) => name);
    for (const [isSlow, end] of [[false, 200] as const, [true, 20] as const]) {
      const names = all.filter((name) => slow.test(name) === isSlow);
      const { counts, findings } = await fuzzed(t, { catalogue: "targets", names, seed: 1, end });
      t.deepEqual(findings, []);
      for (const [name, { cases, accepted }] of counts) {
        t.is(cases, end, name);
        t.true(accepted > 0, `${name} accepts its seeds`);
      }
    }
  },
);

testIf(testAll)(
  "the fuzzer finds a huge allocation, a hang, a process exit and growing memory",
  async (t) => {
    const names = ["a claim", "a hang", "an end", "memory"];
    const planted = {
      catalogue: "planted-targets",
      caseMsMax: 3000,
      memoryBytesMax: 2 ** 30,
    } as const;
    const { findings, counts } = await fuzzed(t, { ...planted, names, seed: 1, end: 30 });
    const errorsOf = (name: string) => findings.filter((one) => one.target === name);
    t.regex(errorsOf("a claim")[0]?.error ?? "", /^RangeError: Invalid array length/);
    t.regex(errorsOf("a hang")[0]?.error ?? "", /no end after \d+ ms/);
    t.regex(errorsOf("an end")[0]?.error ?? "", /exit code 3/);
    t.regex(errorsOf("memory")[0]?.error ?? "", /MiB of memory|SIG/);
    for (const name of names) t.is(counts.get(name)?.cases, 30, name);
    const [first] = errorsOf("a claim");
    // The shortest input with the fault is its first byte, or empty.
    t.truthy(first);
    const again = await fuzzed(t, {
      ...{ ...planted, names: ["a claim"], seed: 1 },
      ...{ first: first?.number ?? 0, end: (first?.number ?? 0) + 1 },
    });
    t.is(again.findings[0]?.error, first?.error);
    t.true(readFileSync(again.findings[0]?.file ?? "").length <= 1);
  },
);

test("a fuzzer's case depends only on the seed, the target and the case number", (t) => {
  const seeds = [Buffer.from("some bytes"), Buffer.from("others")];
  const drawn = (seed: number, name: string, number: number) => [
    ...changedBytes(streamOf(seed, name, number), seeds[0] as Buffer, seeds),
  ];
  t.deepEqual(drawn(1, "a", 5), drawn(1, "a", 5));
  t.notDeepEqual(drawn(1, "a", 5), drawn(1, "a", 6));
  const value = { list: [1, { name: "x" }], count: 3 };
  const of = (number: number) => changedValue(streamOf(1, "a", number), value, [value]);
  t.deepEqual(of(3), of(3));
  t.true(
    Array.from({ length: 20 }, (_, i) => JSON.stringify(of(i))).some(
      (text) => text !== JSON.stringify(value),
    ),
  );
});
