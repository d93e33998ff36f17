// Learning rates that change, and clipped gradients, in simulated runs: no bit depends on the
// number of devices or on a lost device.

import test from "ava";
import { addJob } from "../../../chaos/simulation/jobs.ts";
import { InvalidOptionError, type JobOptions } from "../../../internal.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { oneModelAfterLosses, simulatedData, storyOf } from "../../helpers/simulated.ts";

const optimizer = {
  dense: {
    kind: "adam",
    learningRate: 0.02,
    schedule: { kind: "cosine", warmUpSteps: 5, steps: 40, to: 0.1 },
    clip: { norm: 0.05 },
    ema: { decay: 0.9 },
  },
  sparse: {
    kind: "rowWiseAdagrad",
    learningRate: 0.1,
    schedule: { kind: "polynomial", warmUpSteps: 3, steps: 30, power: 2, to: 0.2 },
    clip: { value: 0.002 },
  },
} as const satisfies JobOptions["optimizer"];

const reduceOnPlateau = { metric: "auc", factor: 0.5, minDelta: 0.2, least: 0.05 } as const;

const evaluation = { fraction: 0.2, everySteps: 2, reduceOnPlateau };
const simulated = {
  ...{ model: smallModel, optimizer, evaluation },
  data: { ...simulatedData, samples: 240 },
};

test.serial(
  "simulated schedules, clipping and plateaus: one model on 1, 2 and 3 devices",
  async (t) => {
    const { generations } = await oneModelAfterLosses(simulated);
    t.deepEqual(generations, [2, 2]);
  },
);

test.serial("each part of the optimizer recipe changes the model", async (t) => {
  const { schedule: _dense, ...steadyDense } = optimizer.dense;
  const { schedule: _sparse, ...steadySparse } = optimizer.sparse;
  const { clip: _clip, ...unclipped } = optimizer.dense;
  const { clip: _value, ...freeRows } = optimizer.sparse;
  const digests: string[] = [];
  for (const own of [
    {},
    { evaluation: { fraction: 0.2, everySteps: 2 } },
    { optimizer: { ...optimizer, dense: unclipped } },
    { optimizer: { ...optimizer, dense: steadyDense } },
    { optimizer: { ...optimizer, sparse: steadySparse } },
    { optimizer: { ...optimizer, sparse: freeRows } },
  ]) {
    digests.push((await storyOf(addJob({ ...simulated, ...own }))).result.digest);
  }
  t.is(new Set(digests).size, digests.length, digests.join("\n"));
});

test.serial("a moving average changes the evaluations, but not the training", async (t) => {
  const { ema: _ema, ...plain } = optimizer.dense;
  const histories = [];
  for (const dense of [optimizer.dense, plain]) {
    const own = {
      optimizer: { ...optimizer, dense },
      evaluation: { fraction: 0.2, everySteps: 2 },
    };
    histories.push((await storyOf(addJob({ ...simulated, ...own }))).result.history);
  }
  const [averaged = [], own = []] = histories.map((history) =>
    history.filter(({ evaluation }) => evaluation !== undefined),
  );
  t.true(averaged.length > 2);
  const lossesOf = (points: typeof own) => points.map(({ trainLoss }) => trainLoss);
  t.deepEqual(lossesOf(averaged), lossesOf(own));
  t.true(averaged.every((point, i) => point.evaluation?.logLoss !== own[i]?.evaluation?.logLoss));
});

test("a learning rate that is reduced on a plateau is refused with FTRL", (t) => {
  const ftrl = {
    ...{ model: smallModel, data: smallData, checkpoint: { directory: "unused" } },
    ...{ optimizer: { sparse: { kind: "ftrl" } }, evaluation },
  } as const;
  const error = t.throws(() => resolveJob(ftrl), { instanceOf: InvalidOptionError });
  t.regex(error?.message ?? "", /`evaluation.reduceOnPlateau` to be left out where rows .* FTRL/);
});
