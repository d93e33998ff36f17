// The test of a run: made once training has ended, of the model that the run returns, the same
// after any kill; it chooses nothing, and a run that had ended before tells it again.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type JobOptions, loadModel, runHistory } from "../../../index.ts";
import { clicksData, clicksModel, writeClicks } from "../../helpers/clusters/clicks.ts";
import {
  calmResult,
  only,
  runJob,
  smallData,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";

type Evaluation = NonNullable<JobOptions["evaluation"]>;

/** A test of generated data with another seed: it decides no bit of the run. */
const evaluation: Evaluation = {
  everySteps: 15,
  test: { data: { samples: 150, seed: 7 }, dataDiffers: true },
};

test.serial(
  "a test changes no bit of the run, and a kill in it no figure of the test",
  async (t) => {
    await using place = await startTestCluster();
    const calm = await calmResult();
    const plain = await runJob(place, place.job({ evaluation }));
    t.is(plain.result.digest, calm.digest);
    t.deepEqual(plain.result.history, calm.history);
    t.like(plain.result.test, { step: 43, metrics: { samples: 150 } });
    t.is(plain.result.bestTest, undefined);
    // The test is what device 1 does last before the last checkpoint: count on from the evaluation.
    const points = [25, 75, 80, 85];
    const exits = points.map((point, i) => {
      return { actor: "device:1", generation: i + 1, step: 43, point, effect: "exit" } as const;
    });
    place.threads.plan(exits);
    const job = place.job({ evaluation });
    const { result, events } = await runJob(place, job);
    t.deepEqual(result.test, plain.result.test);
    t.is(result.digest, calm.digest);
    t.deepEqual(result.history, calm.history);
    const contexts = only(events, "run.incident").map(({ context }) => context);
    const inTest = "device.evaluate of the test";
    t.deepEqual(contexts, ["device.evaluate", inTest, inTest, inTest]);
    const again = await runJob(place, job);
    t.true(again.result.alreadyFinished);
    t.deepEqual(again.result.test, plain.result.test);
  },
);

test.serial(
  "one device and three find the same, and so does the model that is loaded",
  async (t) => {
    await using place = await startTestCluster(3);
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

test.serial(
  "early stopping returns the test of the best model, and chooses as without it",
  async (t) => {
    await using place = await startTestCluster();
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
    const tested = await runJob(place, job({ test: evaluation.test }));
    t.is(tested.result.generation, 3);
    t.is(tested.result.digest, plain.result.digest);
    t.deepEqual(tested.result.history, plain.result.history);
    t.like(tested.result.test, { step: best, metrics: { samples: 150 } });
    await using model = await loadModel(tested.result.directory);
    t.deepEqual(await model.evaluate(undefined, { part: "test" }), tested.result.test?.metrics);
  },
);

/** Files of clicks, with a job that learns 300 lines by heart. */
function startClicks(t: ExecutionContext) {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-part-"));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const [train, valid, final] = [1, 2, 3].map((seed) =>
    writeClicks(join(directory, `${seed}.csv`), 300, seed),
  ) as [string, string, string];
  const job = (of: Evaluation, name: string): JobOptions => ({
    model: clicksModel,
    data: { ...clicksData([train], join(directory, "cache")), epochs: 12 },
    optimizer: { sparse: { kind: "adagrad", learningRate: 0.3 } },
    evaluation: of,
    checkpoint: { directory: join(directory, name), everySteps: 1000, keep: 1 },
  });
  return { directory, train, valid, final, job };
}

test.serial("keepBest has the tests of both models, the last one and the best", async (t) => {
  const { valid, final, job } = startClicks(t);
  await using place = await startTestCluster();
  const of = {
    data: { paths: [valid] },
    keepBest: "auc",
    test: { data: { paths: [final] } },
  } as const;
  const { result } = await runJob(place, job(of, "best"));
  const best = result.evaluations?.best.step ?? 0;
  t.true(best < result.step);
  t.like(result.test, { step: result.step });
  t.like(result.bestTest, { step: best });
  for (const [manifest, of] of [
    ["last", result.test],
    ["best", result.bestTest],
  ] as const) {
    await using model = await loadModel(result.directory, { manifest });
    t.deepEqual(await model.evaluate(undefined, { part: "test" }), of?.metrics);
  }
  const steps = runHistory(result.directory).flatMap(({ step, test }) => (test ? step : []));
  t.deepEqual(steps, [best, result.step]);
});

test.serial(
  "a test that equals other data is warned of, and one that came too late is told",
  async (t) => {
    const { train, valid, final, job } = startClicks(t);
    await using place = await startTestCluster();
    const data = { paths: [valid] };
    const codesOf = async (of: Evaluation, name: string) => {
      const { result } = await runJob(place, job(of, name));
      return result.warnings.map(({ code }) => code).filter((code) => !code.startsWith("MODEL"));
    };
    t.deepEqual(await codesOf({ data }, "late"), []);
    t.deepEqual(await codesOf({ data, test: { data: { paths: [final] } } }, "late"), [
      "NOT_TESTED",
    ]);
    t.deepEqual(await codesOf({ data, test: { data } }, "equal"), ["TEST_EQUALS_EVALUATION"]);
    t.deepEqual(await codesOf({ data, test: { data: { paths: [train] } } }, "trained"), [
      "TEST_EQUALS_TRAINING",
    ]);
  },
);
