// Plan files: equal plans have equal text, one line per shard; a file that is no plan of the job is
// refused.

import test from "ava";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { readPlan, writePlan } from "../../src/planner/plan-file.ts";
import { searchPlan } from "../../src/planner/search.ts";
import type { Plan } from "../../src/planner/shards.ts";
import { cutBy, plannedTable, settingOf } from "../helpers/stores/plans.ts";

const tables = [
  plannedTable("hot", { dim: 96, rowBlocks: 4, poolingFactor: 60 }),
  plannedTable("small", { rows: 10 }),
  plannedTable('odd "name"', { dim: 20 }),
];

function startPlan(): Plan {
  const setting = cutBy(
    settingOf(tables, { hosts: 2, perHost: 2 }),
    "grid",
    "table-wise",
    "data-parallel",
  );
  const { best } = searchPlan(setting);
  return best?.plan ?? { devices: { hosts: 0, perHost: 0 }, shards: [] };
}

test("a plan reads back unchanged, and writes the same bytes again", (t) => {
  const plan = startPlan();
  const { text, sha256 } = writePlan(plan);
  const read = readPlan(text, "plan.json", tables);
  t.deepEqual(read, plan);
  t.deepEqual(writePlan(read), { text, sha256 });
  t.regex(sha256, /^[0-9a-f]{64}$/);
});

test("each shard is one line, so that plans can be compared line by line", (t) => {
  const plan = startPlan();
  const [first, ...rest] = plan.shards;
  if (first === undefined) return t.fail();
  const moved = { ...plan, shards: [{ ...first, device: 3 }, ...rest] };
  const other = { ...plan, shards: [{ ...first, device: 2 }, ...rest] };
  const a = writePlan(moved).text.split("\n");
  const b = writePlan(other).text.split("\n");
  t.is(a.length, b.length);
  const different = a.filter((line, i) => line !== b[i]);
  t.is(different.length, 2); // The shard's line, and the hash.
  t.regex(different[0] ?? "", /"table":"hot".*"device":3/);
  t.not(writePlan(moved).sha256, writePlan(other).sha256);
});

test("a file that is no plan of the job is refused in one sentence", (t) => {
  const plan = startPlan();
  const { text } = writePlan(plan);
  const [first, ...rest] = plan.shards;
  if (first === undefined) return t.fail();
  const written = (shards: Plan["shards"]) => writePlan({ ...plan, shards }).text;
  const wrong: [string, RegExp][] = [
    ["shards: []", /it is not valid JSON/],
    ["{}", /Expected `plan\.version`/],
    [text.replace('"grid"', '"diagonal"'), /Expected `plan\.shards\[\d\]\.scheme`.*one of/],
    [text.replace('"device":0', '"device":1'), /its hash is not that of its text/],
    [written(rest), /it places \d+ of the \d+ quanta of hot/],
    [written([...plan.shards, first]), /it places block 0, quantum 0 of hot, twice/],
    [written([{ ...first, device: 4 }, ...rest]), /it places hot on device 4 of 4/],
    [
      written([{ ...first, firstQuantum: 9 }, ...rest]),
      /quantum 9 of hot, which the table does not have/,
    ],
    [written([{ ...first, device: "all" }, ...rest]), /it places hot grid on device all/],
    [
      written([{ ...first, table: "cold" }, ...rest]),
      /the table cold, which the job does not have/,
    ],
  ];
  for (const [bad, sentence] of wrong) {
    const error = t.throws(() => readPlan(bad, "p.json", tables), {
      instanceOf: InputUnusableError,
    });
    t.regex(error?.message ?? "", /^Cannot use the plan p\.json: /);
    t.regex(error?.message ?? "", sentence);
  }
});
