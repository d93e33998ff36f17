// A served model scores as the model does, names the version of each answer, and ranks candidates.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { SampleRecord } from "../../../src/data/records.ts";
import {
  InputUnusableError,
  InvalidOptionError,
  ModelClosedError,
} from "../../../src/errors/errors.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { ServedModel } from "../../../storage/serving/served-model.ts";
import { startDirectory } from "../../data/data-files.ts";
import { drawModel } from "../../helpers/stores/drawn-model.ts";

const tables = ["a", "b"].map((name) => ({ name, rows: 50, dim: 4 }));

async function drawnDirectory(t: ExecutionContext): Promise<string> {
  const directory = join(startDirectory(t), "checkpoints");
  await drawModel({
    model: { kind: "dlrm", dense: 2, tables, bottom: [5, 4], top: [6, 1] },
    data: { kind: "synthetic", samples: 8, dense: 2, batchSize: 8 },
    checkpoint: { directory },
  });
  return directory;
}

const user: SampleRecord = { I1: 0.25, I2: -1, a: [3, 4] };
const candidates = [7, 9, 11, 7].map((id): SampleRecord => ({ b: [id] }));

test("answers are the model's, and name its version", async (t) => {
  const directory = await drawnDirectory(t);
  await using model = await loadModel(directory);
  await using served = await ServedModel.open(directory);
  const records = candidates.map((candidate) => ({ ...user, ...candidate }));
  const { scores, version } = await served.predict(records);
  t.deepEqual(scores, await model.predict(records));
  t.deepEqual(version, { digest: model.digest, step: model.step });
  t.deepEqual(served.tasks, model.tasks);
});

test("candidates are ranked best first, and of equal ones the earlier comes first", async (t) => {
  const directory = await drawnDirectory(t);
  await using served = await ServedModel.open(directory);
  const records = candidates.map((candidate) => ({ ...user, ...candidate }));
  const { scores } = await served.predict(records);
  const ranked = await served.rank(user, candidates, { top: 3 });
  t.deepEqual(ranked.scores, scores);
  const byHand = [0, 1, 2, 3].sort((one, other) => {
    return (scores[other] ?? 0) - (scores[one] ?? 0) || one - other;
  });
  t.deepEqual([...ranked.order], byHand.slice(0, 3));
  t.is(scores[0], scores[3]);
  t.true(byHand.indexOf(0) + 1 === byHand.indexOf(3));
  for (const options of [{ top: -1 }, { by: "another" }]) {
    await t.throwsAsync(served.rank(user, candidates, options), {
      instanceOf: InvalidOptionError,
    });
  }
});

test("a file that is no delta changes nothing, and a closed model answers nothing", async (t) => {
  const served = await ServedModel.open(await drawnDirectory(t));
  const { version } = served;
  await t.throwsAsync(served.applyDelta("absent.delta"), { instanceOf: InputUnusableError });
  t.deepEqual(served.version, version);
  await served.close();
  await t.throwsAsync(served.predict([user]), { instanceOf: ModelClosedError });
});
