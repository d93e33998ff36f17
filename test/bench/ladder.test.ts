// The parts of the ladder bench at a small size: the modelled disk; and every layout, read in every
// way, gives the drawn values.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { cpuSteps, readOnCpu } from "../../packages/ingest/bench/cpu-ladder.ts";
import { readOnDisk } from "../../packages/ingest/bench/disk-ladder.ts";
import {
  BatchDigest,
  type FeatureBatch,
  featuresOfJob,
} from "../../packages/ingest/bench/feature-batch.ts";
import { byPopularity, drawLogged, type Logged } from "../../packages/ingest/bench/features.ts";
import { ladderBench, ladderRows } from "../../packages/ingest/bench/ladder.bench.ts";
import { writeFlattened, writeMaps } from "../../packages/ingest/bench/layouts.ts";
import { modelledDisk } from "../../packages/ingest/bench/modelled-disk.ts";
import { openRanges } from "../../src/data/tables/byte-ranges.ts";
import { startDirectory } from "../data/data-files.ts";

const [rows, features, stripe] = [150, 160, 64];

test("a read on the modelled disk costs a seek, unless it continues the last one", async (t) => {
  const path = join(startDirectory(t), "bytes");
  writeFileSync(path, new Uint8Array(3000).fill(7));
  const disk = modelledDisk(await openRanges(path));
  t.is((await disk.read(0, 1500))[1499], 7);
  t.is(disk.seconds, 0.008 + 1500 / 150e6);
  await disk.read(1500, 3000);
  t.is(disk.seeks, 1);
  await disk.read(0, 10);
  t.is(disk.seeks, 2);
  t.true(Math.abs(disk.seconds - (0.016 + 3010 / 150e6)) < 1e-12);
  await disk.close();
});

/** The job's batch, made of the drawn values without a file. */
function batchOfDrawn(logged: Logged): FeatureBatch {
  const job = featuresOfJob(logged);
  const dense = new Float32Array(logged.rows * job.numbers.length);
  for (const [place, { values }] of job.numbers.entries()) {
    for (let row = 0; row < logged.rows; row++) {
      const value = values.kind === "number" ? values.numbers[row] : undefined;
      dense[row * job.numbers.length + place] = value || 0; // NaN: not logged.
    }
  }
  const lists = job.lists.map(({ values }) => {
    if (values.kind !== "list") throw new TypeError("a list");
    return { offsets: values.offsets, ids: BigInt64Array.from(values.ids, BigInt) };
  });
  return { rows: logged.rows, dense, lists };
}

test("every layout gives the drawn rows, read by rows and by columns", async (t) => {
  const home = startDirectory(t);
  const logged = drawLogged(rows, features);
  const job = featuresOfJob(logged);
  t.is(job.numbers.length + job.lists.length, features / 10);
  t.true(job.lists.length > 0);
  const drawn = new BatchDigest(job);
  drawn.add(batchOfDrawn(logged));
  const expected = drawn.digest();
  writeMaps(join(home, "map"), logged, stripe);
  writeFlattened(join(home, "flat"), rows, byPopularity(logged), stripe);
  for (const step of cpuSteps) {
    const digest = new BatchDigest(job);
    const path = join(home, step === "map" ? "map" : "flat");
    await readOnCpu(step, path, job, (batch) => digest.add(batch));
    t.is(digest.digest(), expected, step);
  }
});

test("popular features come first, and the job reads more of them", (t) => {
  const logged = drawLogged(1, 200);
  const first = new Set(
    byPopularity(logged)
      .slice(0, 40)
      .map(({ key }) => key),
  );
  t.true(logged.job.filter((key) => first.has(key)).length > logged.job.length / 2);
  t.deepEqual(drawLogged(1, 200).job, logged.job);
});

test("single-column reads seek, merged reads do not, and popular order reads less", async (t) => {
  const home = startDirectory(t);
  const logged = drawLogged(rows, features);
  const columns = logged.job.flatMap((key) => logged.features[key]?.name ?? []);
  const [inOrder, popular] = [join(home, "order"), join(home, "popular")];
  writeFlattened(inOrder, rows, logged.features, stripe);
  writeFlattened(popular, rows, byPopularity(logged), stripe);
  const single = await readOnDisk({ path: inOrder, columns, isCoalesced: false });
  const merged = await readOnDisk({ path: inOrder, columns, isCoalesced: true });
  const reordered = await readOnDisk({ path: popular, columns, isCoalesced: true });
  t.is(single.read, single.wanted);
  t.is(merged.wanted, single.wanted);
  t.true(merged.seconds < single.seconds && merged.seeks < single.seeks);
  t.true(merged.read > single.read);
  t.true(reordered.read < merged.read);
  t.is(reordered.wanted, single.wanted);
});

test("the bench has a row for each name that it declares, and a sign for each step", async (t) => {
  const options = { rows: 200, features: 40, stripe: 50, rounds: 1 };
  const found = await ladderRows(options);
  t.deepEqual(
    found.map(({ name }) => name),
    ladderBench.measurements(options).flatMap(({ names }) => names),
  );
  for (const { name, figure } of found) t.true(figure > 0 || name.endsWith("signs"), name);
  t.is(found.find(({ name }) => name === "ladder.disk.signs")?.limit, 4);
  t.is(found.find(({ name }) => name === "ladder.cpu.signs")?.limit, 2);
});
