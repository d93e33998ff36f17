// A served model scores like the model, names the version of each answer, and ranks candidates.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import type { SampleRecord } from "../../../../src/data/records.ts";
import {
  InputUnusableError,
  InvalidOptionError,
  ModelClosedError,
} from "../../../../src/errors/errors.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawModel } from "../../../../test/helpers/stores/drawn-model.ts";
import { ServedModel } from "../../model/served-model.ts";

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

test("answers equal the model's, and name its version", async (t) => {
  const directory = await drawnDirectory(t);
  await using model = await loadModel(directory);
  await using served = await ServedModel.open(directory);
  const records = candidates.map((candidate) => ({ ...user, ...candidate }));
  const { scores, version } = await served.predict(records);
  t.deepEqual(scores, await model.predict(records));
  t.deepEqual(version, { digest: model.digest, step: model.step });
  t.deepEqual(served.tasks, model.tasks);
});

test("candidates are ranked best first, and ties in the order given", async (t) => {
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

test("candidates may name different columns, each of which overrides the shared record", async (t) => {
  const directory = await drawnDirectory(t);
  await using served = await ServedModel.open(directory);
  for (const some of [
    [{ b: [1] }, { b: [2], I2: 0.5 }, {}, { a: 9, I1: 3 }],
    [
      { I2: 1, b: 3 },
      { I2: 2, b: 4 },
    ],
    [{ b: null }, { b: [7, 8] }],
    [
      { a: 1, b: 2, I1: 4, I2: 5 },
      { a: 2, b: 3, I1: 4, I2: 5 },
    ],
    [],
  ] as readonly SampleRecord[][]) {
    const { scores } = await served.rank(user, some);
    const whole = await served.predict(some.map((one) => ({ ...user, ...one })));
    t.deepEqual(scores, whole.scores);
  }
  for (const some of [[{ bb: 2 }], [{ b: 1 }, { bb: 2 }]]) {
    await t.throwsAsync(served.rank(user, some), {
      instanceOf: InvalidOptionError,
      message: /`bb` is no column/,
    });
  }
  const many = Array.from({ length: 2500 }, (_, i): SampleRecord => ({ b: i % 50 }));
  const whole = await served.predict(many.map((one) => ({ ...user, ...one })));
  t.deepEqual((await served.rank(user, many)).scores, whole.scores);
});

test("missing values and nested columns of candidates are ranked as they are predicted", async (t) => {
  const directory = join(startDirectory(t), "checkpoints");
  await drawModel({
    model: { kind: "dlrm", dense: 3, tables, bottom: [5, 4], top: [6, 1] },
    data: {
      ...{ kind: "jsonl", paths: ["clicks.jsonl"], label: "clicked", batchSize: 8 },
      dense: [{ column: "item.price", missing: "indicator" }, "age"],
      categorical: [
        { column: "item.id", table: "a", ids: "integer" },
        { column: "b", ids: "integer" },
      ],
    },
    checkpoint: { directory },
  });
  await using served = await ServedModel.open(directory);
  const person = { age: 30, b: 7 };
  // The type of a record has no nested objects, which requests in JSON have.
  for (const some of [
    [{ "item.price": 2 }, { "item.price": null }, { "item.price": 5 }],
    [{ item: { id: 1, price: 2 } }, { item: { id: 2, price: 3 } }, { item: { id: 3 } }],
  ] as unknown as SampleRecord[][]) {
    const whole = await served.predict(some.map((one) => ({ ...person, ...one })));
    t.is(new Set(whole.scores).size, 3);
    t.deepEqual((await served.rank(person, some)).scores, whole.scores);
  }
});

test("a file that is no delta changes nothing, and a closed model refuses requests", async (t) => {
  const served = await ServedModel.open(await drawnDirectory(t));
  const { version } = served;
  await t.throwsAsync(served.applyDelta("absent.delta"), { instanceOf: InputUnusableError });
  t.deepEqual(served.version, version);
  await served.close();
  await t.throwsAsync(served.predict([user]), { instanceOf: ModelClosedError });
});
