// The rows of RecD's bench at a small size: the factors of drawn sessions, and real sessions as
// rows.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test from "ava";
import type { Bench } from "../../bench/bench.ts";
import { factorBench } from "../../bench/dedup/factor.bench.ts";
import { hasSessions, realRows } from "../../bench/dedup/real-sessions.ts";
import type { BenchRow } from "../../bench/row.ts";
import { startDirectory } from "../data/data-files.ts";

/** The bench row of this name. */
async function rowOf(bench: Bench, options: object, name: string): Promise<BenchRow> {
  const measurement = bench.measurements(options).find(({ names }) => names.includes(name));
  for await (const row of measurement?.measure(() => true) ?? []) if (row.name === name) return row;
  throw new Error(name);
}

test("dedup factors of clustered batches follow the formula, and of shuffled ones are 1", async (t) => {
  for (const name of ["16.0.9", "4.0.8"]) {
    const { ratio = 0 } = await rowOf(factorBench, {}, `dedup.factor.clustered.${name}`);
    t.true(Math.abs(ratio - 1) < 0.05, `${name}: ${ratio}`);
    const { figure } = await rowOf(factorBench, {}, `dedup.factor.shuffled.${name}`);
    t.true(figure >= 1 && figure < 1.05, `${name}: ${figure}`);
  }
});

test("click rows list their session's earlier clicks, rating rows the user's profile", (t) => {
  const home = startDirectory(t);
  mkdirSync(join(home, "session"));
  const put = (name: string, lines: readonly string[]) => {
    writeFileSync(join(home, "session", name), gzipSync(`${lines.join("\n")}\n`));
  };
  t.false(hasSessions(home, "yoochoose"));
  put("yoochoose100k_train.tsv.gz", [
    "SessionId\tItemId\tTime",
    "1\t10\t100.5",
    "1\t11\t130",
    "2\t12\t110",
    "1\t13\t140",
  ]);
  put("ml100k_u.data.gz", ["7\t50\t5\t1000", "8\t51\t3\t1100", "7\t52\t4\t1200", "7\t53\t1\t9999"]);
  put("ml100k_u.user.gz", ["7|24|M|technician|85711", "8|30|F|other|V0R2M"]);
  t.true(hasSessions(home, "yoochoose") && hasSessions(home, "ml100k"));
  t.deepEqual(realRows(home, "yoochoose"), [
    { request: "r0", session: 1, time: 100_500, item: 10, history: [] },
    { request: "r2", session: 2, time: 110_000, item: 12, history: [] },
    { request: "r1", session: 1, time: 130_000, item: 11, history: [10] },
    { request: "r3", session: 1, time: 140_000, item: 13, history: [10, 11] },
  ]);
  const rated = realRows(home, "ml100k");
  t.deepEqual(
    rated.map(({ session, label, liked }) => [session, label, liked]),
    [
      [0, 1, []],
      [1, 0, []],
      [0, 1, [50]],
      [2, 0, [50, 52]],
    ],
    "half an hour without a rating ends a session",
  );
  t.deepEqual(rated[2]?.profile, rated[3]?.profile);
  t.deepEqual(rated[1]?.profile, [30, 102, 111, 210]);
});
