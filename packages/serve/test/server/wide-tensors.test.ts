// Tensors of the Open Inference Protocol with 16 and with 64 bits: half floats, and wide ids.

import { join } from "node:path";
import test from "ava";
import { RequestTooLargeError, RequestUnusableError } from "../../../../src/errors/errors.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startServer } from "../../../../test/helpers/models/served.ts";
import { drawModel, drawnIds } from "../../../../test/helpers/stores/drawn-model.ts";
import { jsonOf, readPlain } from "../../server/protocols/plain-json.ts";
import { callOf } from "../../server/protocols/tensor-inputs.ts";
import { tensorsOf } from "../../server/protocols/tensors.ts";

/** The numbers of a tensor of 16-bit values with these bits. */
function read(datatype: string, bits: readonly number[]): number[] {
  const bytes = new Uint8Array(Uint16Array.from(bits).buffer);
  const about = { name: "x", datatype, shape: [bits.length] };
  const input = { ...about, parameters: { binary_data_size: bytes.length } };
  return tensorsOf([input], bytes)[0]?.elements as number[];
}

test("every half float is read as its IEEE 754 value", (t) => {
  // 0, the smallest and the largest denormal, the smallest normal, 1, -2, the largest, both
  // infinities, and a third.
  const bits = [0, 1, 0x3ff, 0x400, 0x3c00, 0xc000, 0x7bff, 0x7c00, 0xfc00, 0x3555];
  const largest = 65_504;
  const third = 0.333251953125;
  const ends = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  t.deepEqual(read("FP16", bits), [
    ...[0, 2 ** -24, 1023 * 2 ** -24, 2 ** -14, 1, -2, largest, ...ends, third],
  ]);
  t.true(Object.is(read("FP16", [0x8000])[0], -0));
  t.true(Number.isNaN(read("FP16", [0x7e00])[0]));
  t.deepEqual(read("BF16", [0x3f80, 0xc000, 0x7f80, 0x3eab, 1]), [
    ...[1, -2, Number.POSITIVE_INFINITY, 0.333984375, 2 ** -133],
  ]);
  // All positive finite values increase with their bits.
  const all = read(
    "FP16",
    Array.from({ length: 0x7c00 }, (_, i) => i),
  );
  t.true(all.every((value, i) => i === 0 || value > (all[i - 1] ?? 0)));
  for (const datatype of ["FP16", "BF16"]) {
    const input = { name: "x", datatype, shape: [1], data: [1] };
    const message = new RegExp(`to be binary, as JSON has no ${datatype}`);
    t.throws(() => tensorsOf([input], new Uint8Array()), {
      instanceOf: RequestUnusableError,
      message,
    });
  }
});

test("the JSON of a request keeps all digits of 64-bit ids, in records and in tensors", (t) => {
  const body = (text: string) => jsonOf(Buffer.from(text), 1024);
  const call = (method: "predict" | "rank", text: string) => readPlain(method, body(text)).call;
  const user = 1474671338756698595n;
  t.like(call("predict", `{"instances":[{"user":${user}}],"key":${user}}`), {
    records: [{ user }],
  });
  t.like(call("rank", `{"user":{"user":${user}},"candidates":[{"item":-${user}}]}`), {
    ...{ user: { user }, candidates: [{ item: -user }] },
  });
  t.throws(() => body('{"instances":[{"user":1,"user":2}]}'), {
    message: "Expected the body to be JSON: an object has a name twice",
  });
  const elements = (datatype: string, data: string) => {
    const inputs = body(
      `{"inputs":[{"name":"x","datatype":"${datatype}","shape":[1],"data":[${data}]}]}`,
    );
    return tensorsOf(inputs.inputs, new Uint8Array())[0]?.elements;
  };
  const most = (2n ** 63n - 1n).toString();
  t.deepEqual(elements("INT64", most), [2n ** 63n - 1n]);
  t.deepEqual(elements("INT64", "-9223372036854775808"), [-(2n ** 63n)]);
  t.deepEqual(elements("UINT64", "18446744073709551615"), [2n ** 64n - 1n]);
  t.deepEqual(elements("FP64", most), [2 ** 63]);
  for (const [datatype, data] of [
    ["INT64", "9223372036854775808"],
    ["INT64", "-9223372036854775809"],
    ["INT64", "1e19"],
    ["UINT64", "18446744073709551616"],
    ["UINT64", "-1"],
    ["INT32", "2147483648"],
    ["INT32", most],
    ["INT64", "null"],
    ["BYTES", most],
  ] as const) {
    t.throws(() => elements(datatype, data), { message: /^Expected the input `x` to have / }, data);
  }
});

test("a JSON float must fit its datatype, and null is a missing value", (t) => {
  const read = (datatype: string, data: unknown[]) => {
    const input = { name: "x", datatype, shape: [data.length], data };
    return tensorsOf([input], new Uint8Array())[0]?.elements;
  };
  // Null means NaN, as in MLServer: JSON has no NaN.
  t.deepEqual(read("FP32", [0.5, null, 3e38]), [0.5, Number.NaN, 3e38]);
  t.deepEqual(read("FP64", [1e39, null]), [1e39, Number.NaN]);
  const message =
    "Expected the input `x` to have finite numbers that fit FP32, or null for a missing value: " +
    "element 0 is not";
  for (const bad of [1e39, -1e39, "0.5", true]) {
    t.throws(() => read("FP32", [bad]), { instanceOf: RequestUnusableError, message });
  }
  t.throws(() => read("FP64", [Number.POSITIVE_INFINITY]), { instanceOf: RequestUnusableError });
});

test("a shape with a zero cannot request more records than the server's limit", (t) => {
  const job = {
    model: { kind: "dlrm", dense: 1, tables: [], bottom: [1], top: [1] },
  } as unknown as Parameters<typeof callOf>[1];
  const ask = (name: string, shape: readonly number[], more: readonly object[] = []) =>
    callOf(
      tensorsOf([{ name, datatype: "FP32", shape, data: [] }, ...more], new Uint8Array()),
      job,
      1024,
    );
  const tooMany = { instanceOf: RequestTooLargeError, message: /at most 1024 samples, got \d+/ };
  // No memory has room for 2^53 records, so the number of records is checked first.
  for (const records of [1025, 100_000_000, Number.MAX_SAFE_INTEGER]) {
    t.throws(() => ask("I1", [records, 0]), tooMany);
    const lengths = { name: "I1.lengths", datatype: "INT32", shape: [records, 0], data: [] };
    t.throws(() => ask("I1", [0], [lengths]), tooMany);
    t.throws(() => ask("dense", [records, 0], [{ ...lengths, name: "other" }]), tooMany);
  }
  // Empty lists are valid lists.
  t.like(ask("I1", [3, 0]), { kind: "records", records: [{ I1: [] }, { I1: [] }, { I1: [] }] });
});

test("ids of 64 bits are read exactly, in binary, in text and in JSON", async (t) => {
  const home = startDirectory(t);
  const wide = { idBits: 64, dim: 4, initScale: 0.5 } as const;
  const job = await drawModel({
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [
        { name: "user", rows: 64, rowBlocks: 4, dynamic: {}, ...wide },
        { name: "seen", rows: 50, ids: "hash", ...wide },
        { name: "city", rows: 40, dim: 4, initScale: 0.5 },
      ],
      bottom: [4],
      top: [6, 1],
    },
    data: {
      ...{ kind: "csv", paths: [join(home, "none.csv")], label: "y", dense: ["x"], batchSize: 8 },
      categorical: [
        { column: "user", ids: "integer" },
        { column: "seen", ids: "integer" },
        { column: "city", ids: "integer" },
      ],
    },
    checkpoint: { directory: join(home, "checkpoints") },
  });
  const { directory } = job.checkpoint;
  const users = [...drawnIds(job.model, 0).slice(0, 5), 77n];
  const seen = [0n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 49n, 123_456_789_012n];
  const cities = [0, 1, 2, 3, 4, 39];
  const dense = users.map((_, i) => i / 3);
  const { post, get } = await startServer(t, { models: { m: { path: directory } } });
  t.is(
    (await get("/v2/models/m")).body.parameters.encoded_inputs,
    "user.ids,user.lengths,seen.ids,seen.lengths,city.rows,city.lengths",
  );
  await using model = await loadModel(directory);
  const records = users.map((user, i) => {
    return { x: dense[i] ?? 0, user, seen: seen[i] ?? 0n, city: cities[i] ?? 0 };
  });
  const wanted = [...(await model.predict(records))];
  t.true(new Set(wanted).size === wanted.length);
  const shape = [users.length];
  const lengths = ["user", "seen", "city"].map((name) => {
    return { name: `${name}.lengths`, datatype: "INT32", shape, data: users.map(() => 1) };
  });
  const others = [
    { name: "dense", datatype: "FP32", shape: [users.length, 1], data: dense },
    { name: "city.rows", datatype: "INT64", shape, data: cities },
    ...lengths,
  ];
  const texts = [users, seen].map((ids, i) => {
    return { name: `${["user", "seen"][i]}.ids`, datatype: "BYTES", shape, data: ids.map(String) };
  });
  const asText = await post("/v2/models/m/infer", { inputs: [...others, ...texts] });
  t.deepEqual(asText.body.outputs?.[0].data, wanted, JSON.stringify(asText.body));

  const bytes = new Uint8Array(BigInt64Array.from([...users, ...seen]).buffer);
  const parameters = { binary_data_size: 8 * users.length };
  const inputs = [
    ...others,
    { name: "user.ids", datatype: "INT64", shape, parameters },
    { name: "seen.ids", datatype: "INT64", shape, parameters },
  ];
  const call = callOf(tensorsOf(inputs, bytes), model.job, 100);
  t.is(call.kind, "batch");
  if (call.kind === "batch") t.deepEqual([...(await model.predictBatch(call.batch))], wanted);

  const behind = users.slice(1).map(String);
  for (const [data, message] of [
    [["9223372036854775808", ...behind], /64-bit integers/],
    [["1.5", ...behind], /64-bit integers/],
    [["", ...behind], /64-bit integers/],
  ] as const) {
    const bad = { ...texts[0], data };
    const { status, body } = await post("/v2/models/m/infer", {
      inputs: [...others, bad, texts[1]],
    });
    t.is(status, 400);
    t.regex(body.error, message);
  }
  const rows = { ...texts[0], name: "user.rows" };
  const { body } = await post("/v2/models/m/infer", { inputs: [...others, rows, texts[1]] });
  t.regex(body.error, /`user\.ids` with the other features/);
});

test("a record with a prediction that is not finite is refused by name; the others are answered", async (t) => {
  const home = startDirectory(t);
  const job = await drawModel({
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [{ name: "A", rows: 9, dim: 4, initScale: 1 }],
      bottom: [8, 4],
      top: [8, 1],
    },
    data: { kind: "synthetic", samples: 8, dense: 2, batchSize: 8 },
    checkpoint: { directory: join(home, "checkpoints") },
  });
  const { directory } = job.checkpoint;
  const ends = [0, -3.4e38, 3.4e38];
  const records = ends.flatMap((I1) => ends.map((I2) => ({ I1, I2, A: 1 })));
  await using model = await loadModel(directory);
  const known = [...(await model.predict(records))];
  const first = known.findIndex(Number.isNaN);
  t.true(first > 0, `${known}`);
  const { post } = await startServer(t, { models: { m: { path: directory } } });
  const ask = (method: string, body: object) => post(`/v1/models/m:${method}`, body);
  const good = records.filter((_, i) => !Number.isNaN(known[i]));
  const [bad, fine] = await Promise.all([
    ask("predict", { instances: records }),
    ask("predict", { instances: good }),
  ]);
  t.is(bad.status, 400);
  t.regex(
    bad.body.error,
    new RegExp(`^Cannot use records\\[${first}\\]: the model predicts no finite`),
  );
  t.is(bad.body.problems[0].option, `records[${first}]`);
  t.deepEqual([fine.status, fine.body.predictions.length], [200, good.length]);
  const { I1, I2 } = records[first] ?? {};
  const candidates = [
    { A: 1, I1: 0 },
    { A: 2, I1 },
  ];
  const ranked = await ask("rank", { user: { I2 }, candidates });
  t.deepEqual([ranked.status, ranked.body.problems?.[0].option], [400, "candidates[1]"]);
});
