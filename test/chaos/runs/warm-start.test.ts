// Warm starts: a job starts with the state of an earlier job. The model of the second day equals,
// bit for bit, that of one run over both days.

import { rmSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type JobOptions, RemoteError, type ThreadFault } from "../../../internal.ts";
import { exportModel } from "../../../packages/formats/exports/export-model.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { listCheckpoints } from "../../../storage/checkpoints/list-checkpoints.ts";
import { restoreCheckpoint } from "../../../storage/checkpoints/restore-checkpoint.ts";
import { openExistingStore } from "../../../storage/checkpoints/store/open-store.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { startDirectory } from "../../data/data-files.ts";
import { clicksData, clicksModel, writeClicks } from "../../helpers/clusters/clicks.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { thinned } from "../../helpers/thinned.ts";

interface Days {
  readonly home: string;
  jobOf(name: string, days: readonly string[], other?: Partial<JobOptions>): JobOptions;
}

/** Writes two files of whole batches; returns jobs on them without a shuffle. */
function writeDays(t: ExecutionContext, model: object = {}): Days {
  const home = startDirectory(t);
  const path = (day: string) => join(home, `${day}.csv`);
  writeClicks(path("monday"), 1000, 1);
  writeClicks(path("tuesday"), 1500, 2);
  return {
    home,
    jobOf: (name, days, other = {}) => ({
      name,
      model: { ...clicksModel, dropout: 0.2, ...model } as JobOptions["model"],
      data: { ...clicksData(days.map(path), join(home, "cache")), shuffle: false },
      optimizer: { dense: { kind: "adam" }, sparse: { kind: "adam", weightDecay: 0.01 } },
      checkpoint: { directory: join(home, name), everySteps: 7 },
      ...other,
    }),
  };
}

const from = ({ home }: Days, name: string) => ({ warmStart: { from: join(home, name) } });
const exitAt = (step: number, generation = 1): ThreadFault => {
  return { actor: "device:1", generation, step, point: 5, effect: "exit" } as const;
};

const float16 = {
  tables: ["user", "item"].map((name) => ({ name, rows: 100, dim: 4, precision: "float16" })),
};
const cached = {
  tables: ["user", "item"].map((name) => ({ name, rows: 100, dim: 4, tier: "cached" })),
};

for (const [what, model] of [
  ["Adam and rows in float16", float16],
  ["tables below memory", cached],
] as const) {
  test.serial(`a warm start equals one run over both days: ${what}`, async (t) => {
    const days = writeDays(t, model);
    await using place = await startCluster();
    const options = { tiers: { directory: join(days.home, "tiers") } };
    const both = days.jobOf("both", ["monday", "tuesday"], options);
    const { result: whole } = await runJob(place, both);
    t.is((await runJob(place, days.jobOf("first", ["monday"], options))).result.step, 20);
    const file = join(days.home, "first.osiris");
    await exportModel(join(days.home, "first"), file, { withOptimizer: true });
    const starts = [
      ["one", 1, "first"],
      ["two", 2, "first"],
      ["file", 2, "first.osiris"],
    ] as const;
    for (const [name, devices, source] of thinned("warm starts", starts, 2)) {
      const warm = { ...options, ...from(days, source) };
      const second = days.jobOf(name, ["tuesday"], { ...warm, devices });
      const { result, events } = await runJob(place, second);
      t.is(result.digest, whole.digest, `${devices} devices, ${source}`);
      t.is(result.step, 50);
      t.is(only(events, "run.started")[0]?.fromStep, 20);
    }
  });
}

test.serial(
  "a warm-started run ends with the same model after kills, even before its first checkpoint",
  async (t) => {
    const days = writeDays(t);
    await using place = await startCluster();
    await runJob(place, days.jobOf("first", ["monday"]));
    const calm = await runJob(place, days.jobOf("calm", ["tuesday"], from(days, "first")));
    place.threads.plan([exitAt(23), exitAt(40, 2)]);
    const { result } = await runJob(place, days.jobOf("killed", ["tuesday"], from(days, "first")));
    t.is(result.generation, 3);
    t.is(result.digest, calm.result.digest);
    t.not(result.digest, (await runJob(place, days.jobOf("cold", ["tuesday"]))).result.digest);
  },
);

test.serial(
  "a started run no longer needs its warm-start source; a changed source is refused",
  async (t) => {
    const days = writeDays(t);
    await using place = await startCluster();
    await runJob(place, days.jobOf("first", ["monday"]));
    const checkpoint = { directory: join(days.home, "second"), everySteps: 100 };
    const job = days.jobOf("second", ["tuesday"], { ...from(days, "first"), checkpoint });
    const { result } = await runJob(place, job);
    const store = openExistingStore(join(days.home, "second"));
    t.like(JSON.parse(store.jobText).warmStart, { from: join(days.home, "first"), step: 20 });
    rmSync(join(days.home, "first"), { recursive: true });
    t.is((await runJob(place, job)).result.digest, result.digest);
    // The first checkpoint has the rows of the source, and the instruction set that trained them.
    const adopted = store.list().manifests.find(({ cut }) => cut === 20);
    t.deepEqual(adopted?.sets, [openKernels("auto").set]);
    await runJob(place, days.jobOf("first", ["tuesday"]));
    const error = await t.throwsAsync(runJob(place, job), { instanceOf: RemoteError });
    t.is(error.code, "CHECKPOINT_FOREIGN");
    t.regex(error.message, /second holds a run of another job \(other `warmStart`\)/);
  },
);

test.serial(
  "weights in fewer bits can be restored, and a warm start from them has their digest",
  async (t) => {
    const days = writeDays(t);
    await using place = await startCluster();
    const first = join(days.home, "first");
    const checkpoint = { directory: first, everySteps: 7, bits: 8 } as const;
    await runJob(place, days.jobOf("first", ["monday"], { mode: "bounded", checkpoint }));
    const directory = join(days.home, "second");
    const kept = { checkpoint: { directory, keep: 9 }, ...from(days, "first") };
    await runJob(place, days.jobOf("second", ["tuesday"], kept));
    t.true((await verifyCheckpoints(directory)).isIntact);
    const [, before] = listCheckpoints(first).checkpoints;
    await restoreCheckpoint(first, before?.manifest ?? "");
    t.is(listCheckpoints(first).checkpoints[0]?.manifest, before?.manifest);
  },
);

test.serial(
  "a warm-started run that is cancelled before its first step keeps its checkpoint",
  async (t) => {
    const days = writeDays(t);
    await using place = await startCluster();
    await runJob(place, days.jobOf("first", ["monday"]));
    const calm = await runJob(place, days.jobOf("calm", ["tuesday"], from(days, "first")));
    const job = days.jobOf("second", ["tuesday"], from(days, "first"));
    const { result } = await runJob(place, job, (event, run) =>
      event.type === "run.prepared" ? run.cancel() : undefined,
    );
    t.like(result, { status: "cancelled", step: 20, generation: 1 });
    rmSync(join(days.home, "first"), { recursive: true });
    t.is((await runJob(place, job)).result.digest, calm.result.digest);
  },
);

test.serial("an incompatible warm start is refused by the option that differs", async (t) => {
  const days = writeDays(t);
  await using place = await startCluster();
  await runJob(place, days.jobOf("first", ["monday"]));
  const warm = from(days, "first");
  const refusal = async (other: Partial<JobOptions>) => {
    const job = days.jobOf("second", ["tuesday"], { ...warm, ...other });
    const error = await t.throwsAsync(place.cluster.submit(job));
    return error.message;
  };
  const other = {
    ...clicksModel,
    tables: ["user", "item"].map((name) => ({ name, rows: 101, dim: 4 })),
  };
  t.regex(
    await refusal({ model: other }),
    /^Expected `model\.tables\[0\]\.rows` to be as in the job of .*first, which this one begins with, 100, got `101`/,
  );
  t.regex(
    await refusal({ optimizer: { dense: { kind: "sgd" }, sparse: { kind: "adam" } } }),
    /^Expected `optimizer\.dense\.kind` to be as in .*"adam", got `sgd`/,
  );
  t.regex(
    await refusal({ checkpoint: { directory: join(days.home, "first") } }),
    /^Expected `warmStart\.from` to be another directory than .*first, which is/,
  );
  t.regex(
    await refusal({ warmStart: { from: join(days.home, "nowhere") } }),
    /There is no checkpoint in .*nowhere/,
  );
});
