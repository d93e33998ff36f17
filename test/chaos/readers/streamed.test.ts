// Runs without a cache: the samples are made from the Parquet files again in each epoch. The model
// equals that of a run with a cache, on any number of devices and after any kill.

import { copyFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { loadModel, type RunEvent, verifyRun } from "../../../index.ts";
import { tableFilesOf } from "../../../src/data/files.ts";
import { InputUnusableError, RemoteError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../../data/data-files.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import { dataOfDays, jobOnDays, modelOfDays, writeDays } from "../../helpers/clusters/days.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

test.serial(
  "a run without a cache equals a run with one, though readers and devices are killed",
  async (t) => {
    const home = writeDays(t);
    const rest = {
      evaluation: { everySteps: 20, split: { kind: "time", column: "when", from: 3 } },
    };
    await using place = await startCluster(2);
    const own = { ...rest, devices: 1 };
    const { result: cached } = await runJob(place, jobOnDays(place, home, { order: "split" }, own));
    place.threads.plan([{ actor: "device:1", generation: 1, step: 12, point: 5, effect: "exit" }]);
    const cache = join(startDirectory(t), "cache");
    const data = { order: "split", streamed: true, cache };
    const job = jobOnDays(place, home, data, { ...rest, readers: 2 });
    const { result, events } = await runJob(place, job, (event: RunEvent) => {
      if (event.type !== "run.checkpointed") return;
      if (event.step === 10) place.threads.kill("reader:1");
      if (event.step === 40) place.threads.kill("reader:0");
    });
    t.is(result.digest, cached.digest);
    t.deepEqual(result.history, cached.history);
    t.true(result.generation >= 2);
    t.true(only(events, "run.incident").length > 0);
    // The cache directory has only indexes: of the files, and of the data.
    const [files = "none", index = "none", ...others] = readdirSync(cache);
    t.is(files, "file-indexes");
    t.regex(index, /^parquet-.*\.index\.cache$/);
    t.deepEqual(others, []);
    await using model = await loadModel(result.directory);
    t.like(await model.evaluate(), { auc: result.auc, logLoss: result.logLoss });
    t.true((await verifyRun(result.directory)).isEqual);
  },
);

test.serial("row groups beyond a reader's memory are refused, or shared by slices", async (t) => {
  const home = writeDays(t);
  const [paths, cache] = [tableFilesOf([home]), join(startDirectory(t), "cache")];
  const prepare = (own: object, readerBytesMax: number) => {
    const data = dataOfDays(home, { cache, ...own, paths });
    const job = resolveJob({ model: modelOfDays, data, checkpoint: { directory: "unused" } });
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

testIf(testAll).serial(
  "a file that changes in the midst of a run fails it, and the error names the file",
  async (t) => {
    const home = writeDays(t);
    const [first = "", second = ""] = tableFilesOf([home]);
    await using place = await startCluster(1);
    const run = await place.cluster.submit(jobOnDays(place, home, { streamed: true, passes: 50 }));
    for await (const event of run.events()) {
      if (event.type === "run.checkpointed" && event.step === 10) copyFileSync(second, first);
    }
    const error = await t.throwsAsync(run.result(), { instanceOf: RemoteError });
    t.is(error?.code, "INPUT_UNUSABLE");
    t.regex(
      error?.message ?? "",
      /date=2026-11-01.* has changed since its index was made: .* put the/,
    );
  },
);
