// Dynamic ids in a job: which options are valid, which are refused, and which are part of its
// identity.

import test from "ava";
import type { TableOptions } from "../../src/embedding/tables/options.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { writePlan } from "../../src/planner/plan-file.ts";
import type { PlacedShard, Scheme } from "../../src/planner/shards.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";

const jobOf = (table: Partial<TableOptions>, more: Partial<JobOptions> = {}): JobOptions => ({
  model: {
    kind: "dlrm",
    tables: [{ name: "user", rows: 100, dim: 64, rowBlocks: 2, idBits: 64, ...table }],
    top: [1],
  },
  data: { kind: "synthetic", samples: 10, batchSize: 10, dense: 0 },
  ...more,
});

test("by default, dynamic ids are admitted on sight and evicted by LFU", (t) => {
  const [table] = resolveJob(jobOf({ dynamic: {} })).model.tables;
  t.deepEqual(table?.dynamic, {
    admission: { kind: "all" },
    eviction: { kind: "lfu", free: 0.1 },
    everySteps: 100,
  });
  t.is(resolveJob(jobOf({})).model.tables[0]?.dynamic, undefined);
});

const schemes = '"table-wise", "row-wise", "table-row-wise"';
for (const [table, message] of [
  [{ idBits: 32 }, "`model.tables[0].idBits` to be 64 where ids are `dynamic`, got `32` (number)"],
  [
    { ids: "hash" },
    "`model.tables[0].ids` to be left out, as any id may come, where ids are `dynamic`, " +
      "got `hash` (string)",
  ],
  ...(["column-wise", "data-parallel", "table-column-wise", "grid"] as const).map(
    (sharding) =>
      [
        { sharding },
        `\`model.tables[0].sharding\` to be one of ${schemes}, as whole rows lie on one device, ` +
          `where ids are \`dynamic\`, got \`${sharding}\` (string)`,
      ] as const,
  ),
  [
    { dedup: true },
    "`model.tables[0].dedup` to be false, as only the device of the rows knows them, where ids " +
      "are `dynamic`, got `true` (boolean)",
  ],
] as const) {
  test(`a job refuses dynamic ids with ${JSON.stringify(table)}`, (t) => {
    t.throws(() => resolveJob(jobOf({ ...table, dynamic: {} })), {
      instanceOf: InvalidOptionError,
      message: `Expected ${message}`,
    });
  });
}

test("all options that cannot be combined with dynamic ids are reported at once", (t) => {
  const wrong = jobOf({ dynamic: {}, idBits: 32, staleness: 1, dedup: true }, { mode: "bounded" });
  const error = t.throws(() => resolveJob(wrong), { instanceOf: InvalidOptionError });
  t.deepEqual(
    error?.problems.map(({ option }) => option),
    ["idBits", "dedup", "staleness"].map((option) => `model.tables[0].${option}`),
  );
});

for (const [dynamic, option] of [
  [{ admission: { kind: "probability", probability: 0 } }, "admission.probability"],
  [{ admission: { kind: "frequency", count: 0 } }, "admission.count"],
  [{ eviction: { kind: "age", steps: 0 } }, "eviction.steps"],
  [{ eviction: { kind: "lfu", free: 1 } }, "eviction.free"],
  [{ eviction: { kind: "fifo" } }, "eviction.kind"],
  [{ everySteps: 0 }, "everySteps"],
] as const) {
  test(`a job refuses ${JSON.stringify(dynamic)}`, (t) => {
    const error = t.throws(() => resolveJob(jobOf({ dynamic: dynamic as never })), {
      instanceOf: InvalidOptionError,
    });
    t.is(error?.option, `model.tables[0].dynamic.${option}`);
  });
}

test("admission and eviction options are part of a job's identity", (t) => {
  const identities = [
    undefined,
    {},
    { everySteps: 7 },
    { admission: { kind: "frequency", count: 2 } as const },
    { admission: { kind: "frequency", count: 3 } as const },
    { eviction: { kind: "lfu", free: 0.2 } as const },
    { eviction: { kind: "age", steps: 5 } as const },
  ].map((dynamic) => jobIdentity(resolveJob(jobOf({ dynamic }))));
  t.is(new Set(identities).size, identities.length);
});

test("a plan for dynamic ids keeps rows whole, and the planner searches no other", (t) => {
  const job = resolveJob(jobOf({ dynamic: {} }));
  const of = (options: { schemes?: readonly Scheme[] }) =>
    workloadOf(job, options).tables[0]?.schemes;
  t.deepEqual(of({ schemes: ["row-wise", "column-wise", "data-parallel"] }), ["row-wise"]);
  t.deepEqual(of({ schemes: ["grid"] }), ["table-wise", "row-wise", "table-row-wise"]);
  const tile = (more: Partial<PlacedShard>): PlacedShard => ({
    ...{ table: "user", scheme: "row-wise", tier: "memory", device: 0 },
    ...{ firstBlock: 0, blocks: 2, firstQuantum: 0, quanta: 2, ...more },
  });
  const planned = (shards: readonly PlacedShard[]) => {
    const { text } = writePlan({ devices: { hosts: 1, perHost: 2 }, shards: [...shards] });
    return () => resolveJob(jobOf({ dynamic: {} }, { plan: JSON.parse(text) }));
  };
  t.notThrows(planned([tile({ blocks: 1 }), tile({ firstBlock: 1, blocks: 1, device: 1 })]));
  const message =
    "Expected `plan` to be one of this job, but it does not keep whole rows of user on one " +
    "device: ids are dynamic";
  const columns = { scheme: "column-wise", quanta: 1 } as const;
  t.throws(planned([tile(columns), tile({ ...columns, firstQuantum: 1, device: 1 })]), { message });
  t.throws(planned([tile({ scheme: "data-parallel", device: "all" })]), { message });
});
