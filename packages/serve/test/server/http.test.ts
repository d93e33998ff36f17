// The model server over HTTP: the Open Inference Protocol, plain JSON, access and limits.

import { readFileSync } from "node:fs";
import { request } from "node:https";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CheckpointMissingError,
  InputUnusableError,
  InvalidOptionError,
} from "../../../../src/errors/errors.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { shared } from "../../../../test/helpers/clusters/one-for-many.ts";
import {
  recordsOf,
  startModel,
  startServer,
  type TrainedHere,
} from "../../../../test/helpers/models/served.ts";
import { pem } from "../../../../test/helpers/nats/nats-identities.ts";
import { until } from "../../../../test/helpers/until.ts";
import { ServedModel } from "../../model/served-model.ts";
import type { ScoringEngine } from "../../server/models/engine.ts";
import { resolveServer } from "../../server/models/server-options.ts";
import { serve } from "../../server/serve.ts";

let model: TrainedHere;
const withModel = shared(async () => {
  const ends: (() => unknown)[] = [];
  model = await startModel({ teardown: (end) => void ends.push(end) });
  return { [Symbol.asyncDispose]: async () => void (await Promise.all(ends.map((end) => end()))) };
});

const start = (t: Parameters<typeof startServer>[0], more = {}, world = {}) =>
  startServer(t, { models: { ctr: { path: model.directory } }, ...more }, world);

async function scoresOf(records: ReturnType<typeof recordsOf>): Promise<number[]> {
  await using loaded = await loadModel(model.directory);
  return [...(await loaded.predict(records))];
}

withModel.test(
  "the server returns the model's own predictions, with the version that made them",
  async (t) => {
    const { post, server } = await start(t);
    const records = recordsOf(5);
    const { status, body } = await post("/v1/models/ctr:predict", { instances: records });
    t.is(status, 200);
    const { digest, step } = server.versions.ctr ?? {};
    t.deepEqual(body, {
      predictions: await scoresOf(records),
      ...{ model: "ctr", version: digest, step },
    });
    const inProcess = await server.predict("ctr", records);
    t.deepEqual([...inProcess.scores], body.predictions);
    const again = await post(`/v1/models/ctr/versions/${digest}:predict`, { records });
    t.deepEqual(again.body.predictions, body.predictions);
  },
);

withModel.test("the candidates of a user are ranked, the best first", async (t) => {
  const { post } = await start(t);
  const user = { I1: 0.5, I2: 1 };
  const candidates = recordsOf(20).map(({ A, B }) => ({ A, B }));
  const expected = await scoresOf(candidates.map((one) => ({ ...user, ...one })));
  const { body } = await post("/v1/models/ctr:rank", { user, candidates, top: 3 });
  const best = expected.map((score, index) => ({ index, score })).sort((a, b) => b.score - a.score);
  t.deepEqual(body.ranked, best.slice(0, 3));
});

withModel.test("the Open Inference Protocol's paths answer as specified", async (t) => {
  const { get, server } = await start(t);
  t.deepEqual((await get("/v2/health/live")).body, { live: true });
  t.deepEqual((await get("/v2/health/ready")).body, { ready: true });
  t.like((await get("/v2")).body, { name: "osiris", extensions: ["binary_tensor_data"] });
  t.deepEqual((await get("/v2/models/ctr/ready")).body, { name: "ctr", ready: true });
  const { body } = await get("/v2/models/ctr");
  t.like(body, { name: "ctr", versions: [server.versions.ctr?.digest] });
  t.is(body.parameters.encoded_inputs, "A.rows,A.lengths,B.rows,B.lengths");
  t.deepEqual(body.outputs, [{ name: "predictions", datatype: "FP32", shape: [-1, 1] }]);
  t.deepEqual(body.inputs[2], { name: "A", datatype: "BYTES", shape: [-1, -1] });
  t.is((await get("/v2/models/no")).status, 404);
  t.is((await get("/v2/models/ctr/versions/77")).status, 404);
  const metrics = await get("/metrics");
  t.regex(metrics.body, /osiris_serve_model_step\{model="ctr"\} 1/);
  const known = [...metrics.body.matchAll(/^# TYPE (osiris_serve_\w+)/gm)].map(([, name]) => name);
  const page = readFileSync("packages/serve/docs/serving.md", "utf8");
  const cells = [...page.matchAll(/^\|([^|]*`osiris_serve_[^|]*)\|/gm)].map(([, cell]) => cell);
  const listed = cells.flatMap((cell) => cell?.match(/osiris_serve_\w+/g) ?? []);
  t.deepEqual(listed.sort(), known.sort());
});

withModel.test("tensors of columns are read as records, in JSON or as binary data", async (t) => {
  const { post, server } = await start(t);
  const records = [
    { I1: 0.25, I2: 2, A: 4, B: [1, 2] },
    { I1: 0.5, I2: null, A: 7, B: [3, 9] },
  ];
  const expected = await scoresOf(records);
  const inputs = [
    { name: "I1", datatype: "FP32", shape: [2, 1], data: [[0.25], [0.5]] },
    { name: "A", datatype: "BYTES", shape: [2], data: ["4", "7"] },
    { name: "B", datatype: "INT64", shape: [2, 2], data: [1, 2, 3, 9] },
  ];
  const binary = Buffer.alloc(16);
  binary.writeDoubleLE(2, 0);
  binary.writeDoubleLE(Number.NaN, 8); // A missing value.
  const parameters = { binary_data_size: 16 };
  const json = JSON.stringify({
    id: "42",
    inputs: [...inputs, { name: "I2", datatype: "FP64", shape: [2, 1], parameters }],
    outputs: [{ name: "predictions", parameters: { binary_data: true } }],
  });
  const response = await fetch(`${server.url}/v2/models/ctr/infer`, {
    method: "POST",
    body: Buffer.concat([Buffer.from(json), binary]),
    headers: {
      "content-type": "application/octet-stream",
      "inference-header-content-length": String(Buffer.byteLength(json)),
    },
  });
  t.is(response.status, 200);
  const bytes = Buffer.from(await response.arrayBuffer());
  const split = Number(response.headers.get("inference-header-content-length"));
  const head = JSON.parse(bytes.subarray(0, split).toString());
  t.like(head, { id: "42", model_name: "ctr", model_version: server.versions.ctr?.digest });
  t.like(head.outputs[0], { shape: [2, 1], parameters: { binary_data_size: 8 } });
  t.deepEqual([bytes.readFloatLE(split), bytes.readFloatLE(split + 4)], expected);

  const ragged = await post("/v2/models/ctr/infer", {
    inputs: [
      { name: "I1", datatype: "FP64", shape: [2], data: [0.25, 0.5] },
      { name: "B", datatype: "INT64", shape: [3], data: [1, 2, 3] },
      { name: "B.lengths", datatype: "INT32", shape: [2], data: [2, 1] },
    ],
  });
  const same = await scoresOf([
    { I1: 0.25, B: [1, 2] },
    { I1: 0.5, B: [3] },
  ]);
  t.deepEqual(ragged.body.outputs[0].data, same);
});

withModel.test("tensors named like the ONNX export's inputs are an encoded batch", async (t) => {
  const { post } = await start(t);
  const { status, body } = await post("/v2/models/ctr/infer", {
    inputs: [
      { name: "dense", datatype: "FP32", shape: [2, 2], data: [0.5, 1, 0.25, 2] },
      { name: "A.rows", datatype: "INT64", shape: [2], data: [4, 7] },
      { name: "A.lengths", datatype: "INT64", shape: [2], data: [1, 1] },
      { name: "B.rows", datatype: "INT64", shape: [3], data: [1, 2, 3] },
      { name: "B.lengths", datatype: "INT64", shape: [2], data: [2, 1] },
    ],
  });
  t.is(status, 200, JSON.stringify(body));
  await using loaded = await loadModel(model.directory);
  const batch = {
    ...{ samples: 2, dense: Float32Array.of(0.5, 1, 0.25, 2) },
    ...{ lengths: Int32Array.of(1, 1, 2, 1), ids: Int32Array.of(4, 7, 1, 2, 3) },
    ...{ highs: undefined, weights: undefined },
  };
  t.deepEqual(body.outputs[0].data, [...(await loaded.predictBatch(batch))]);
});

// The example of the REST specification, which is for another model, in the protocol's own form.
withModel.test(
  "the specification's example is parsed, and refused for its unknown tensor names",
  async (t) => {
    const { post } = await start(t);
    const example = {
      id: "42",
      inputs: [
        { name: "input0", shape: [2, 2], datatype: "UINT32", data: [1, 2, 3, 4] },
        { name: "input1", shape: [3], datatype: "BOOL", data: [true] },
      ],
      outputs: [{ name: "output0" }],
    };
    const { status, body } = await post("/v2/models/ctr/infer", example);
    t.is(status, 400);
    t.is(body.error, "Expected the input `input1` to have 3 elements, as in its shape, got 1");
    const [input0] = example.inputs;
    const unknown = await post("/v2/models/ctr/infer", { ...example, inputs: [input0] });
    t.regex(unknown.body.error, /Expected the output `predictions`, got `output0`/);
    const columns = await post("/v2/models/ctr/infer", { inputs: [input0] });
    t.is(columns.status, 400);
    t.regex(columns.body.error, /expected some of the columns `I1`/);
  },
);

withModel.test("an invalid request is answered with a status and a sentence", async (t) => {
  const { post, get, server } = await start(t, { requestBytes: 4096, requestSamples: 3 });
  const predict = "/v1/models/ctr:predict";
  const wrong: [
    Promise<{ status: number; body: { code: string; error: string } }>,
    number,
    string,
  ][] = [
    [post(predict, "{"), 400, "REQUEST_UNUSABLE"],
    [post(predict, { instances: [{ I1: "x" }] }), 400, "INVALID_OPTION"],
    [post(predict, { instances: [{ A: 4, b: 1 }] }), 400, "INVALID_OPTION"],
    [post(predict, { instances: recordsOf(4) }), 413, "REQUEST_TOO_LARGE"],
    [post(predict, "x".repeat(5000)), 413, "REQUEST_TOO_LARGE"],
    [post(predict, "{}", { "content-type": "text/html" }), 415, "REQUEST_UNUSABLE"],
    [post(predict, "{}", { "content-encoding": "gzip" }), 415, "REQUEST_UNUSABLE"],
    [post("/v1/models/no:predict", { instances: [] }), 404, "MODEL_UNKNOWN"],
    [post("/v2/health/live", {}), 405, "REQUEST_UNUSABLE"],
    [get(predict), 405, "REQUEST_UNUSABLE"],
    [get("/elsewhere"), 404, "REQUEST_UNUSABLE"],
  ];
  for (const [asked, status, code] of wrong) {
    const answer = await asked;
    t.is(answer.status, status, answer.body.error);
    t.is(answer.body.code, code);
    t.regex(answer.body.error, /^[A-Z].{10}/);
  }
  t.is((await server.predict("ctr", recordsOf(2))).scores.length, 2);
});

withModel.test("requests need a token of the server; health probes need none", async (t) => {
  const { post, get } = await start(t, { tokens: ["a-token-of-this-test", "another-token-of-it"] });
  const ask = (authorization: string) =>
    post("/v1/models/ctr:predict", { instances: recordsOf(1) }, { authorization });
  t.is((await ask("Bearer another-token-of-it")).status, 200);
  for (const wrong of ["", "Bearer a-token-of-this-tesT", "Basic YTpi"]) {
    const { status, body } = await ask(wrong);
    t.is(status, 401);
    t.is(body.code, "ACCESS_REFUSED");
  }
  t.is((await get("/metrics")).status, 401);
  t.is((await get("/v2/health/ready")).status, 200);
});

withModel.test("a request with a foreign Host header is refused (DNS rebinding)", async (t) => {
  const { server } = await start(t);
  const { port } = new URL(server.url);
  const answer = await rawAnswer(Number(port), "GET /v2 HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  t.regex(answer, /^HTTP\/1\.1 403 /);
});

/** The head of the server's answer to `text`. */
async function rawAnswer(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  let received = "";
  socket.on("data", (data) => {
    received += data;
  });
  socket.on("error", () => {});
  socket.write(text);
  await until("the head of an answer", () => received.includes("\r\n\r\n"));
  socket.destroy();
  return received;
}

withModel.test(
  "a public address without a token, and other invalid options, are refused in a sentence",
  (t) => {
    const models = { m: { path: "p" } };
    const wrong: [object, RegExp][] = [
      [{ models, host: "0.0.0.0" }, /Expected `host` to be an address of this machine alone/],
      [{ models: {} }, /Expected `models` to be an object with >= 1 model/],
      [
        { models: { m: { path: "p", shadow: "n" } } },
        /`models\.m\.shadow` to be another model here/,
      ],
      [{ models: { "a.b": { path: "p" } } }, /letters, digits/],
      [{ models, tokens: ["short"] }, /tokens/],
      [{ models, bach: 3 }, /did you mean `batch`/],
    ];
    for (const [options, message] of wrong) {
      t.throws(() => resolveServer(options as never), { instanceOf: InvalidOptionError, message });
    }
    t.is(resolveServer({ models, host: "0.0.0.0", insecure: true }).host, "0.0.0.0");
  },
);

withModel.test(
  "`serve` fails at the start for a missing model and for an address in use",
  async (t) => {
    const missing = serve({ port: 0, models: { m: { path: "no/where" } } });
    await t.throwsAsync(missing, { instanceOf: CheckpointMissingError });
    const { server } = await start(t);
    const { port } = new URL(server.url);
    const taken = serve({ port: Number(port), models: { m: { path: model.directory } } });
    await t.throwsAsync(taken, { instanceOf: InputUnusableError, message: /EADDRINUSE/ });
  },
);

/** The engine of Osiris, whose answers wait until the test calls `go`. */
function slowEngine() {
  let go = () => {};
  let began = 0;
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  const open = async (path: string): Promise<ScoringEngine> => {
    const engine = await ServedModel.open(path);
    return new Proxy(engine, {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name !== "predict") return value.bind(target);
        return async (records: never) => {
          began++;
          await held;
          return target.predict(records);
        };
      },
    });
  };
  /** Resolves once the first request is in the engine. */
  const isBusy = () => until("a request in the engine", () => began > 0);
  return { open, go: () => go(), began: () => began, isBusy };
}

withModel.test("a full queue answers 429 with a time to retry after", async (t) => {
  const { open, go, isBusy } = slowEngine();
  const { post } = await start(t, { queueSamples: 2 }, { open });
  const ask = (count: number) => post("/v1/models/ctr:predict", { instances: recordsOf(count) });
  const first = ask(2);
  await isBusy();
  const refused = await ask(1);
  t.is(refused.status, 429);
  t.is(refused.body.code, "SERVER_BUSY");
  t.regex(refused.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
  go();
  t.is((await first).status, 200);
  t.is((await ask(1)).status, 200);
});

withModel.test(
  "a request that waits beyond its deadline gets an error, and is not scored",
  async (t) => {
    const { open, go, began, isBusy } = slowEngine();
    const { post, get } = await start(t, {}, { open });
    const instances = recordsOf(1);
    const first = post("/v1/models/ctr:predict", { instances });
    await isBusy();
    const late = post("/v1/models/ctr:predict", { instances }, { "osiris-timeout-ms": "20" });
    const waiting = /^osiris_serve_queue_samples\{model="ctr"\} 2$/m;
    await until("two requests", async () => waiting.test((await get("/metrics")).body));
    await sleep(50);
    go();
    t.is((await first).status, 200);
    const { status, body } = await late;
    t.is(status, 504);
    t.is(body.code, "REQUEST_EXPIRED");
    t.is(began(), 1);
  },
);

withModel.test("a closing server answers accepted requests, and accepts no more", async (t) => {
  const { open, go, isBusy } = slowEngine();
  const { post, server } = await start(t, {}, { open });
  const first = post("/v1/models/ctr:predict", { instances: recordsOf(2) });
  await isBusy();
  const closing = server.close();
  await t.throwsAsync(server.predict("ctr", recordsOf(1)), { code: "SERVER_DRAINING" });
  await t.throwsAsync(fetch(`${server.url}/v2/health/ready`));
  go();
  const { status, headers, body } = await first;
  t.is(status, 200);
  t.is(headers.get("connection"), "close");
  t.is(body.predictions.length, 2);
  await closing;
});

withModel.test("a body that arrives too slowly ends its own connection only", async (t) => {
  const { server, post } = await start(t, { requestMs: 1000 });
  const { port } = new URL(server.url);
  const head =
    "POST /v1/models/ctr:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{";
  const answer = await rawAnswer(Number(port), head);
  t.regex(answer, /^HTTP\/1\.1 4\d\d [\s\S]*/);
  const ask = () => post("/v1/models/ctr:predict", { instances: recordsOf(1) });
  await until("an answer to another client", async () => (await ask()).status === 200);
});

withModel.test(
  "TLS: clients that trust the certificate's authority are answered, others fail",
  async (t) => {
    const tls = { cert: pem("server"), key: pem("server-key") };
    const { server } = await start(t, { tls });
    const { port } = new URL(server.url);
    t.regex(server.url, /^https:/);
    const ask = (ca: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const options = { port, path: "/v2/health/ready", ca: readFileSync(ca), agent: false };
        request({ host: "127.0.0.1", ...options }, (answer) => {
          answer.resume().on("end", () => resolve(answer.statusCode));
        })
          .on("error", reject)
          .end();
      });
    t.is(await ask(pem("ca")), 200);
    await t.throwsAsync(ask(pem("other-ca")), { message: /certificate/ });
    t.is(await ask(pem("ca")), 200);
    const mixed = start(t, { tls: { cert: pem("server"), key: pem("client-key") } });
    await t.throwsAsync(mixed, { instanceOf: InputUnusableError, message: /^Cannot use the cert/ });
  },
);
