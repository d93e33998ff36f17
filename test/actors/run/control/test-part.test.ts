// The test of a run: it runs once training has ended, on the model that the run returns, and is the
// same after any kill. It chooses no model, and a run that had finished before reports it again.

import { type JobOptions, loadModel, runHistory } from "../../../../index.ts";
import { calmResult, only, runJob, smallData } from "../../../helpers/clusters/clusters.ts";
import { equalsCalm, startCluster } from "../../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../../helpers/needs.ts";
import { onCluster } from "./place.ts";

type Evaluation = NonNullable<JobOptions["evaluation"]>;

/** A test on generated data with another seed, which changes no bit of the run. */
const evaluation: Evaluation = {
  everySteps: 15,
  test: { data: { samples: 150, seed: 7 }, dataDiffers: true },
};

testIf(testAll).serial(
  "an evaluation on test data changes no bit, and a kill during it changes no metric",
  async (t) => {
    await using place = await startCluster();
    const plain = await runJob(place, place.job({ evaluation }));
    await equalsCalm(t, plain.result, calmResult());
    t.like(plain.result.test, { step: 43, metrics: { samples: 150 } });
    t.is(plain.result.bestTest, undefined);
    // The test is the last work of device 1 before the last checkpoint, so its points follow those
    // of the evaluation.
    const points = [25, 75, 80, 85];
    const exits = points.map((point, i) => {
      return { actor: "device:1", generation: i + 1, step: 43, point, effect: "exit" } as const;
    });
    place.threads.plan(exits);
    const job = place.job({ evaluation });
    const { result, events } = await runJob(place, job);
    t.deepEqual(result.test, plain.result.test);
    await equalsCalm(t, result, calmResult());
    const contexts = only(events, "run.incident").map(({ context }) => context);
    const inTest = "device.evaluate of the test";
    t.deepEqual(contexts, ["device.evaluate", inTest, inTest, inTest]);
    const again = await runJob(place, job);
    t.true(again.result.alreadyFinished);
    t.deepEqual(again.result.test, plain.result.test);
  },
);

testIf(testAll).serial(
  "one device, three devices and the loaded model have the same test metrics",
  async (t) => {
    await using place = await startCluster(3);
    const held: Evaluation = { fraction: 0.1, test: { fraction: 0.2 } };
    const job = () => place.job({ evaluation: held });
    const one = await runJob(place, { ...job(), devices: 1 });
    const three = await runJob(place, job());
    t.like(only(three.events, "run.prepared")[0], { samples: 2100, heldOut: 300, test: 600 });
    t.deepEqual(three.result.test, one.result.test);
    t.is(three.result.digest, one.result.digest);
    const { directory } = three.result;
    await using model = await loadModel(directory);
    t.deepEqual(await model.evaluate(undefined, { part: "test" }), three.result.test?.metrics);
    t.like(three.result, { auc: (await model.evaluate()).auc });
    const points = runHistory(directory).filter((point) => point.test !== undefined);
    t.deepEqual(
      points.map(({ step, epoch, test }) => ({ step, epoch, auc: test?.auc })),
      [{ step: 33, epoch: 1, auc: three.result.test?.metrics.auc }],
    );
  },
);

onCluster.test(
  "early stopping tests the best model, and stops where it would without a test, after kills",
  async (t, place) => {
    const stopping = { metric: "auc", patience: 2 } as const;
    const job = (more: object) =>
      place.job({
        data: { ...smallData, epochs: 4 },
        optimizer: { dense: { kind: "adagrad", learningRate: 0.3 } },
        evaluation: { everySteps: 7, earlyStopping: stopping, ...more },
      });
    const plain = await runJob(place, job({}));
    const last = plain.result.history.at(-1)?.step ?? 0;
    const best = plain.result.step;
    t.true(best < last);
    place.threads.plan([
      { actor: "device:0", generation: 1, step: best, point: 75, effect: "exit" },
      { actor: "device:1", generation: 2, step: last, point: 5, effect: "exit" },
    ]);
    const again = job({ test: evaluation.test });
    const tested = await runJob(place, again);
    t.is(tested.result.generation, 3);
    t.is(tested.result.digest, plain.result.digest);
    t.deepEqual(tested.result.history, plain.result.history);
    t.like(tested.result.test, { step: best, metrics: { samples: 150 } });
    await using model = await loadModel(tested.result.directory);
    t.deepEqual(await model.evaluate(undefined, { part: "test" }), tested.result.test?.metrics);
    const repeated = await runJob(place, again);
    t.true(repeated.result.alreadyFinished);
    t.deepEqual(repeated.result.test, tested.result.test);
  },
);
