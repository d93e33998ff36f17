// The messages of refusals stay short, whatever the length of the request.

import test from "ava";
import { z } from "zod";
import { refusalAnswer } from "../../../../actors/jobs/service-answers.ts";
import { dataOptions } from "../../../../src/data/options.ts";
import { createRecordEncoder } from "../../../../src/data/records.ts";
import { csv } from "../../../../src/data/sources.ts";
import { InvalidOptionError, RequestTooLargeError } from "../../../../src/errors/errors.ts";
import { checkOptions } from "../../../../src/ports/check-options.ts";
import { jsonOf } from "../../server/protocols/plain-json.ts";
import { refusalOf } from "../../server/protocols/refusals.ts";

const long = "k".repeat(1_000_000);
const part = long.slice(0, 5000);

test("a refusal repeats only the start of a long name, so that no answer outgrows its request", (t) => {
  const unknown = t.throws(
    () => checkOptions(z.strictObject({ a: z.int() }), { a: 1, [long]: 1 }),
    {
      instanceOf: InvalidOptionError,
    },
  );
  t.true(unknown.message.length < 500, `${unknown.message.length}`);
  const problems = Array.from({ length: 1000 }, () => ({ option: part, message: part }));
  for (const error of [unknown, InvalidOptionError.ofAll(problems), new TypeError(long)]) {
    const { body } = refusalOf(error);
    t.true(body.error.length <= 2000, `${body.error.length}`);
    t.true(JSON.stringify(body).length < 70_000);
  }
  t.true(JSON.stringify(refusalAnswer(unknown).body).length < 2000);
  const options = csv("a.csv", { label: "y", batchSize: 1, dense: ["I1", "I2"], categorical: [] });
  const encoder = createRecordEncoder(checkOptions(dataOptions, options), []);
  for (const record of [{ I1: 1, [long]: 1 }, { [long]: 1 }, long]) {
    const error = t.throws(() => encoder.encode([record as never]));
    t.true((error?.message.length ?? 0) < 500, error?.message.slice(0, 200));
  }
});

test("a body with too many different names is refused before it is parsed", (t) => {
  const body = (names: number, nameAt: (i: number) => string) => {
    const members = Array.from({ length: names }, (_, i) => `"${nameAt(i)}":1`);
    return Buffer.from(`{"instances":[{${members.join("},{")}}]}`);
  };
  const tooMany = { instanceOf: RequestTooLargeError, message: /at most 65536 different names/ };
  t.throws(() => jsonOf(body(200_000, String), 1_000_000), tooMany);
  const { instances } = jsonOf(
    body(200_000, (i) => `I${i % 1000}`),
    1_000_000,
  );
  t.is((instances as unknown[]).length, 200_000, "repeated names do not count");
});

test("a body with far more objects than a request may have is refused before it is parsed", (t) => {
  const body = (objects: number) => {
    return Buffer.from(`{"instances":[${"{},".repeat(objects - 1)}{}],"note":"{{{{"}`);
  };
  const tooMany = { instanceOf: RequestTooLargeError, message: /at most 100 samples, got 1000001/ };
  t.throws(() => jsonOf(body(1_000_000), 100), tooMany);
  const { instances } = jsonOf(body(101), 100); // Records are counted later, when they are read.
  t.is((instances as unknown[]).length, 101);
});
