// Runs without a cache: the samples are made of the Parquet files again whenever they are trained.
// The model is that of a run with a cache, on any number of devices and after any kill.

import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { type JobOptions, loadModel, parquet, type RunEvent, verifyRun } from "../../../index.ts";
import { tableFilesOf } from "../../../src/data/parquet/table-files.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import {
  only,
  runJob,
  startTestCluster,
  type TestCluster,
} from "../../helpers/clusters/clusters.ts";

const days = 3;
const rowsOfDay = 500;

/** A partitioned directory of clicks: each day a file of row groups of 100 rows. */
function writeDays(t: ExecutionContext): string {
  const home = mkdtempSync(join(tmpdir(), "osiris-streamed-"));
  t.teardown(() => rmSync(home, { recursive: true, force: true }));
  for (let day = 1; day <= days; day++) {
    const stream = new RandomStream(3, 4, day);
    const draw = (below: number) => Array.from({ length: rowsOfDay }, () => stream.below(below));
    const [user, item, price] = [draw(40), draw(30), draw(1000)];
    const label = user.map((one, i) => {
      return (one + (item[i] ?? 0)) % 2 === stream.below(8) % 2 || stream.below(3) === 0 ? 1 : 0;
    });
    const columnData = Object.entries({ label, user, item, price, when: user.map(() => day) }).map(
      ([name, data]) => ({ name, data, type: "INT32" as const }),
    );
    const folder = join(home, `date=2026-11-0${day}`);
    mkdirSync(folder);
    const bytes = parquetWriteBuffer({ columnData, rowGroupSize: 100 });
    writeFileSync(join(folder, "part-0.parquet"), new Uint8Array(bytes));
  }
  return home;
}

function jobOn(place: TestCluster, home: string, data: object, rest: object = {}): JobOptions {
  const tables = ["user", "item", "pair"].map((name) => ({ name, rows: 400, dim: 8 }));
  const job = place.job({
    model: { kind: "dlrm", tables, bottom: [8, 8], top: [8, 1] },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
    evaluation: { everySteps: 10, fraction: 0.2 },
    ...rest,
  });
  const { cache } = job.data;
  const features = {
    label: "label",
    dense: [{ column: "price", log: true }],
    transforms: [{ op: "cartesian", inputs: ["user", "item"], output: "pair", max: 400 }] as const,
    categorical: ["user", "item", { column: "pair", ids: "integer" as const }],
  };
  const named = parquet(home, { batchSize: 32, passes: 2, cache, ...features, ...data });
  return { ...job, data: named } satisfies JobOptions;
}

async function outcome(devices: number, home: string, data: object, rest: object = {}) {
  await using place = await startTestCluster(devices);
  const { result } = await runJob(place, jobOn(place, home, data, rest));
  return { digest: result.digest, history: result.history };
}

test.serial("in the files' order, and in the split order: the model of the cache", async (t) => {
  const home = writeDays(t);
  const ofTime = {
    evaluation: { everySteps: 20, split: { kind: "time", column: "when", from: 3 } },
  };
  for (const [order, rest] of [
    [{ shuffle: false }, {}],
    [{ order: "split" }, ofTime],
  ] as const) {
    const cached = await outcome(1, home, order, rest);
    t.deepEqual(await outcome(2, home, { ...order, streamed: true }, rest), cached);
  }
});

test.serial("killed readers and devices change no bit, and the proof holds", async (t) => {
  const home = writeDays(t);
  const calm = await outcome(1, home, { streamed: true });
  await using place = await startTestCluster(3);
  place.threads.plan([{ actor: "device:1", generation: 1, step: 17, point: 5, effect: "exit" }]);
  const job = jobOn(place, home, { streamed: true }, { readers: 2 });
  const { result, events } = await runJob(place, job, (event: RunEvent) => {
    if (event.type !== "run.checkpointed") return;
    if (event.step === 10) place.threads.kill("reader:1");
    if (event.step === 40) place.threads.kill("reader:0");
  });
  t.deepEqual({ digest: result.digest, history: result.history }, calm);
  t.true(result.generation >= 2);
  t.true(only(events, "run.incident").length > 0);
  // What lies where caches do is an index alone.
  const [index = "none", ...others] = readdirSync(job.data.cache ?? "");
  t.regex(index, /^parquet-.*\.index\.cache$/);
  t.deepEqual(others, []);
  await using model = await loadModel(result.directory);
  t.like(await model.evaluate(), { auc: result.auc, logLoss: result.logLoss });
  t.true((await verifyRun(result.directory)).isEqual);
});

test.serial("row groups that a reader cannot hold are refused, or shared by slices", async (t) => {
  const home = writeDays(t);
  await using place = await startTestCluster(1);
  const paths = tableFilesOf([home]);
  const prepare = (data: object, readerBytesMax: number) => {
    const job = resolveJob(jobOn(place, home, { ...data, paths }));
    return prepareData(job, realDisk, () => {}, readerBytesMax);
  };
  const error = await t.throwsAsync(prepare({ streamed: true }, 2000), {
    instanceOf: InputUnusableError,
  });
  t.regex(error?.message ?? "", /^A row group of .* takes 1 MiB in memory, and a reader holds two/);
  const lanesOf = async (data: object, readerBytesMax: number) => {
    return (await prepare(data, readerBytesMax)).contents.splits?.lanes;
  };
  t.is(await lanesOf({ streamed: true }, 2 ** 20), 8);
  t.is(await lanesOf({ streamed: true }, 30_000), 3);
  t.is(await lanesOf({ order: "split" }, 2000), undefined, "a cache is cut evenly");
  t.is((await prepare({ order: "split" }, 2000)).contents.splitSamples !== undefined, true);
});
