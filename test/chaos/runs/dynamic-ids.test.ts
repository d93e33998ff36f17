// Dynamic ids on real threads: after a kill before, at or after an eviction step, and under any
// placement, the same ids have the same rows; and the model predicts with them.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "ava";
import {
  csv,
  exportTable,
  importTable,
  type JobOptions,
  loadModel,
  type RunResult,
} from "../../../index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { openCheckpoint } from "../../../storage/checkpoints/open-checkpoint.ts";
import { digestOfParts } from "../../../storage/checkpoints/part-digest.ts";
import { progressOf } from "../../../storage/disk/progress.ts";
import { writeText } from "../../data/data-files.ts";
import { edges, mix64 } from "../../helpers/batches/wide-ids.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

/**
 * Steps between checkpoints: cuts at 5, 10 …; evictions before steps 5, 10 … and 4, 8 … of the two
 * tables.
 */
const everySteps = 5;
interface Line {
  readonly label: number;
  readonly user: bigint;
  readonly items: readonly bigint[];
}

/** Samples whose users appear for a while only, and of whose items a few are popular. */
const lines: readonly Line[] = (() => {
  const stream = new RandomStream(3, 79);
  const idOf = (i: number) => BigInt.asIntN(64, mix64(BigInt(i)));
  return Array.from({ length: 600 }, (_, i) => ({
    label: stream.below(2),
    user:
      stream.below(3) === 0
        ? (edges[stream.below(12)] ?? 0n)
        : idOf(Math.floor(i / 10) + stream.below(9)),
    items: Array.from({ length: stream.below(4) }, () => idOf(stream.below(stream.below(90) + 1))),
  }));
})();

/** The directory of a cluster's jobs. */
const homeOf = (place: EitherCluster): string => dirname(place.job().data.cache ?? "");

const text = (() => {
  const fields = lines.map(({ label, user, items }) => `${label},${user},${items.join("|")}`);
  return ["y,user,items", ...fields].join("\n");
})();

const table = { dim: 8, idBits: 64, sharding: "row-wise" } as const;

function jobOf(place: EitherCluster, tier: "memory" | "cached", more: Partial<JobOptions> = {}) {
  const { evaluation: _, ...job } = place.job({ checkpoint: { everySteps }, ...more });
  const home = homeOf(place);
  const path = writeText(home, { name: "data.csv", text });
  return {
    ...job,
    model: {
      kind: "dlrm",
      tables: [
        {
          ...{ ...table, name: "user", rows: 48, rowBlocks: 2, tier },
          dynamic: { eviction: { kind: "age", steps: 4 }, everySteps },
        },
        {
          ...{ ...table, name: "items", rows: 30, rowBlocks: 4, pooling: "mean", tier },
          dynamic: {
            admission: { kind: "frequency", count: 2 },
            eviction: { kind: "lfu", free: 0.2 },
            everySteps: 4,
          },
        },
      ],
      top: [6, 1],
    },
    data: csv(path, {
      label: "y",
      categorical: [
        { column: "user", ids: "integer" },
        { column: "items", ids: "integer", separator: "|" },
      ],
      batchSize: 30,
      epochs: 2,
      shuffle: false,
      cache: join(home, "cache"),
    }),
    evaluation: { fraction: 0.1, everySteps: 7 },
    tiers: { hbmBytes: 1, ddrBytes: 1, prefetch: 3, ssd: "file" },
  } satisfies JobOptions;
}

let calm: Promise<RunResult> | undefined;

/** The result of the job on one device, without faults. */
function undisturbed(): Promise<RunResult> {
  calm ??= (async () => {
    await using place = await startCluster(1);
    return (await runJob(place, jobOf(place, "memory"))).result;
  })();
  return calm;
}

test.serial("ids are admitted and evicted, and the run's result counts them", async (t) => {
  const { dynamicIds = [], status } = await undisturbed();
  t.is(status, "finished");
  t.deepEqual(
    dynamicIds.map(({ table, rows }) => [table, rows]),
    [
      ["user", 48],
      ["items", 30],
    ],
  );
  for (const { admitted, evicted, dropped, rows, rowsUsed } of dynamicIds) {
    t.true(evicted > 20 && dropped > 20, `${evicted} ${dropped}`);
    t.is(rowsUsed, admitted - evicted);
    t.true(rowsUsed > 0 && rowsUsed <= rows);
  }
});

test.serial(
  "a row that gets another id starts a new moving average, on any devices and tiers",
  async (t) => {
    const sparse = {
      kind: "rowWiseAdagrad",
      initialAccumulator: 0.1,
      ema: { decay: 0.9 },
    } as const;
    await using alone = await startCluster(1);
    const averaged = { optimizer: { sparse } };
    const { result: expected } = await runJob(alone, jobOf(alone, "memory", averaged));
    await using place = await startCluster(2);
    place.threads.plan([{ actor: "device:1", generation: 1, step: 13, point: 4, effect: "exit" }]);
    const { result } = await runJob(place, jobOf(place, "cached", averaged));
    t.is(result.generation, 2);
    t.is(result.digest, expected.digest);
    t.is(result.logLoss, expected.logLoss);
  },
);

for (const tier of ["memory", "cached"] as const) {
  test.serial(`a kill around an eviction step costs a restore and no row: ${tier}`, async (t) => {
    const { digest, dynamicIds, logLoss } = await undisturbed();
    await using place = await startCluster(2);
    place.threads.plan([
      // In the step before an eviction step, in the first waits of the eviction step, after it, and
      // at the eviction step of a cut.
      { actor: "device:1", generation: 1, step: 7, point: 8, effect: "exit" },
      { actor: "device:0", generation: 2, step: 8, point: 0, effect: "exit" },
      { actor: "device:1", generation: 3, step: 8, point: 9, effect: "exit" },
      { actor: "device:0", generation: 4, step: 10, point: 1, effect: "exit" },
      { actor: "device:0", generation: 5, step: 26, point: 4, effect: "exit" },
    ]);
    const { result } = await runJob(place, jobOf(place, tier));
    t.is(result.generation, 6);
    t.is(result.digest, digest);
    t.is(result.logLoss, logLoss);
    t.deepEqual(result.dynamicIds, dynamicIds);
  });
}

test.serial(
  "a run that is cancelled at an eviction step's cut resumes on other devices and tiers",
  async (t) => {
    const { digest, dynamicIds } = await undisturbed();
    await using place = await startCluster(3);
    const checkpoint = { directory: join(homeOf(place), "same"), everySteps };
    await runJob(place, jobOf(place, "memory", { checkpoint, devices: 3 }), (event, run) =>
      event.type === "run.checkpointed" && event.step === 20 ? run.cancel() : undefined,
    );
    const { result } = await runJob(place, jobOf(place, "cached", { checkpoint, devices: 2 }));
    t.is(result.digest, digest);
    t.deepEqual(result.dynamicIds, dynamicIds);
  },
);

test.serial(
  "a loaded model predicts with its dynamic ids, and ignores the unknown ids",
  async (t) => {
    await using place = await startCluster(2);
    const job = jobOf(place, "cached");
    const { result } = await runJob(place, job);
    await using model = await loadModel(job.checkpoint?.directory ?? "");
    t.is(model.digest, result.digest);
    t.is((await model.evaluate()).logLoss, result.logLoss ?? Number.NaN);
    const unknown = 987_654_321_987n;
    const records = lines.map(({ user, items }) => ({ user, items: [...items] }));
    const scores = await model.predict(records);
    t.true(new Set(scores).size > 20);
    const more = records.map((one) => ({ ...one, items: [unknown, ...one.items, unknown] }));
    t.deepEqual(await model.predict(more), scores);
    const [none, stranger] = await model.predict([
      { items: [] },
      { user: unknown, items: [unknown] },
    ]);
    t.is(none, stranger);
    const checkpoint = openCheckpoint(job.checkpoint?.directory ?? "");
    t.is(`sha256:${await digestOfParts(checkpoint, progressOf({}))}`, result.digest);
    const home = homeOf(place);
    const file = join(home, "users.csv");
    const exported = await exportTable(job.checkpoint?.directory ?? "", "user", file);
    t.is(exported.rows, result.dynamicIds?.[0]?.rowsUsed ?? -1);
    const ids = readFileSync(file, "utf8").trim().split("\n").slice(1);
    const users = new Set(lines.map(({ user }) => String(user)));
    t.deepEqual(
      ids.map((line) => line.split(",")[0] ?? "").filter((id) => !users.has(id)),
      [],
    );
    t.is(new Set(ids.map((line) => line.split(",")[0])).size, exported.rows);
    const refused = importTable(job.checkpoint?.directory ?? "", "user", {
      from: join(home, "rows.csv"),
      out: join(home, "imported"),
    });
    await t.throwsAsync(refused, {
      message:
        "Expected a table whose ids are rows, got `user`, whose ids are dynamic: no file says " +
        "which id has which row",
    });
    const copy = join(home, "copy");
    await model.save(copy);
    await using again = await loadModel(copy);
    t.deepEqual(await again.predict(records), scores);
  },
);
