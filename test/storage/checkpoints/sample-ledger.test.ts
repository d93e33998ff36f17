// The sample ledger: how often the committed stretches of steps trained each sample.

import test from "ava";
import { resolveJob } from "../../../src/job/job.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { scheduleOf } from "../../../src/training/loop/schedule.ts";
import {
  epochOrderOf,
  type Stretch,
  sampleLedger,
  stretchesOf,
  timesTrained,
} from "../../../storage/checkpoints/sample-ledger.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { commitCheckpoint, flipByte, testJob } from "../../helpers/stores/checkpoints.ts";

// 25 samples in batches of 10: three steps an epoch, the last one short.
const schedule = scheduleOf({ samples: 25, batchSize: 10, passes: 2 });
const order = { seed: 3, shuffle: true };
const stretch = (generation: number, from: number, to: number): Stretch => ({
  generation,
  from,
  to,
});

test("stretches that meet end to end train every sample of every epoch once", (t) => {
  const stretches = [stretch(1, 0, 2), stretch(2, 2, 4), stretch(2, 4, 6)];
  t.deepEqual([...timesTrained(stretches, schedule)], [1, 1, 1, 1, 1, 1]);
  const whole = { samples: 25, once: 25, never: 0, twice: 0 };
  t.deepEqual(sampleLedger(stretches, schedule, order), [whole, whole]);
});

test("a generation that began too early trained samples twice, one too late skipped some", (t) => {
  const [twice] = sampleLedger([stretch(1, 0, 2), stretch(2, 1, 6)], schedule, order);
  t.deepEqual(twice, { samples: 25, once: 15, never: 0, twice: 10 });
  const [never] = sampleLedger([stretch(1, 0, 2), stretch(2, 3, 6)], schedule, order);
  t.deepEqual(never, { samples: 25, once: 20, never: 5, twice: 0 }, "the short batch is missing");
});

test("a run in the split order trains every sample once, in the order that its metrics name", (t) => {
  const job = resolveJob({
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [{ name: "a", rows: 9, dim: 4 }],
      bottom: [4],
      top: [1],
    },
    data: { kind: "synthetic", samples: 25, dense: 1, batchSize: 10, order: "split" },
    seed: 3,
    slices: 2,
  });
  const contents = {
    training: { samples: 25, digest: "", version: 3, files: [] },
    splitSamples: 4,
  };
  const split = epochOrderOf(job, { contents });
  t.deepEqual(split, { ...order, split: { splitSamples: 4, splits: undefined, slices: 2 } });
  const whole = { samples: 25, once: 25, never: 0, twice: 0 };
  t.deepEqual(sampleLedger([stretch(1, 0, 6)], schedule, split), [whole, whole]);
  const [twice] = sampleLedger([stretch(1, 0, 2), stretch(2, 1, 6)], schedule, split);
  t.deepEqual(twice, { samples: 25, once: 15, never: 0, twice: 10 });
  t.deepEqual(epochOrderOf(job, undefined), { ...order, split: undefined });
});

/**
 * Generation 1 commits cuts 10 and 20; generation 2 resumes from 20, or from 10 if 20 is passed
 * over.
 */
function startStore(epochOver20: boolean) {
  const disk = new SimulatedDisk();
  const store = openStore({ directory: "/run", disk, ...testJob });
  store.beginGeneration();
  commitCheckpoint(store, { generation: 1, cut: 10 });
  const second = commitCheckpoint(store, { generation: 1, cut: 20 });
  const claimed = store.beginGeneration(undefined, epochOver20 ? [second.sha256] : []);
  commitCheckpoint(store, { generation: 2, cut: 30 });
  return { disk, claimed };
}

test("the stretches of a store are those that its generations committed", (t) => {
  const { disk } = startStore(false);
  const expected = [stretch(1, 0, 10), stretch(1, 10, 20), stretch(2, 20, 30)];
  t.deepEqual(stretchesOf("/run", disk), expected);
});

test("a checkpoint that was passed over has no stretch: its steps were trained again", (t) => {
  const { disk, claimed } = startStore(true);
  t.is(claimed.latest?.cut, 10);
  t.regex(claimed.damaged[0]?.path ?? "", /000000020-g000001/);
  t.deepEqual(stretchesOf("/run", disk), [stretch(1, 0, 10), stretch(2, 10, 30)]);
});

test("where a generation's record is damaged, its first manifest says where it began", (t) => {
  const { disk } = startStore(false);
  flipByte(disk, pathsOf("/run").generation(2), 20);
  t.deepEqual(stretchesOf("/run", disk).at(-1), stretch(2, 20, 30));
});
