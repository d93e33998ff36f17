// Fuzz targets that read messages, requests and jobs: JSON, YAML, msgpack, and the protocol of the
// broker.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { decode, encode } from "@msgpack/msgpack";
import { jobMethods, requests } from "../../actors/jobs/job-api.ts";
import { loadJob, loadSweep } from "../../cli/support/job-file.ts";
import { readInfer } from "../../packages/serve/server/protocols/open-inference.ts";
import { jsonOf, methods, readPlain } from "../../packages/serve/server/protocols/plain-json.ts";
import { FrameCorruptError, TrainingError } from "../../src/errors/errors.ts";
import { decodeFrame, encodeFrame } from "../../src/exchange/frame.ts";
import { resolveJob } from "../../src/job/job.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { longAsText, parseExactly } from "../../src/ports/json/exact-json.ts";
import { helloOf, noHello } from "../../src/wire/broker/hello.ts";
import { ProtocolParser } from "../../src/wire/broker/parser.ts";
import { decodeBody, encodeBody } from "../../src/wire/messages/body.ts";
import { messages } from "../../src/wire/messages/messages.ts";
import { jsonValues, type Target, type Values } from "./target.ts";

const jobs = [
  {
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [{ name: "a", rows: 90, dim: 4 }],
      bottom: [4],
      top: [1],
    },
    data: { kind: "synthetic", samples: 20, dense: 2, batchSize: 10 },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
    checkpoint: { directory: "checkpoints" },
  },
  {
    model: { kind: "wide-and-deep", tables: [{ name: "a", rows: 90, dim: 4 }], hidden: [4, 1] },
    data: { kind: "csv", paths: ["a.csv"], label: "y", categorical: ["a"], batchSize: 10 },
    seed: 3,
    evaluation: { split: { fraction: 0.1, kind: "order" } },
  },
];

const texts = (...all: readonly string[]) => all.map((text) => Buffer.from(text));

const exactJson: Target = {
  name: "exact json",
  seeds: () =>
    texts(
      '{"a":[1,-0,1.5e3,12345678901234567890],"b":{"2":null,"1":"\\u00e9\\n"},"c":true}',
      '[[[["x"]]],{"__proto__":1},"\\"",1e400,-9007199254740993]',
      JSON.stringify(jobs),
    ),
  read(bytes) {
    const text = Buffer.from(bytes).toString("utf8");
    let error: unknown;
    for (const mayBeMaps of [false, true]) {
      try {
        parseExactly(text, { mayBeMaps });
        JSON.parse(text); // Accepted text must be JSON.
      } catch (cause) {
        error = cause;
      }
    }
    if (error !== undefined) throw error;
    longAsText(parseExactly(text));
  },
  values: jsonValues,
  refusals: [SyntaxError],
};

const jobJson: Target = {
  name: "job of a request",
  seeds: () => jobs.map((job) => Buffer.from(JSON.stringify(job))),
  read: (bytes) => resolveJob(longAsText(parseExactly(Buffer.from(bytes).toString("utf8")))),
  values: jsonValues,
  refusals: [SyntaxError],
};

const jobYaml: Target = {
  name: "job in yaml",
  seeds: () =>
    ["examples/clicks.yaml", "examples/synthetic.yaml", "examples/two-towers.yaml"]
      .map((path) => readFileSync(path))
      .concat(
        texts("a: &a [1, 2]\nb: {<<: {c: *a}, d: 0x1F}\n? [x]\n: !!set {y}\n", "--- |\n x\n...\n"),
      ),
  async read(bytes, home) {
    const path = join(home, "job.yaml");
    writeFileSync(path, bytes);
    try {
      await loadSweep(path);
    } catch (error) {
      if (!(error instanceof TrainingError)) throw error;
    }
    await loadJob(path);
  },
};

/** Values of msgpack, which unlike JSON has binary strings. */
const msgpackValues: Values = {
  parse: (bytes) => decode(bytes),
  write: (value) => encode(value, { maxDepth: 3000 }),
};

const manifestPart = {
  name: "dense",
  file: "pack-d0-00000",
  at: 0,
  bytes: 3,
  sha256: "a".repeat(64),
  base: [],
};

const envelopes: readonly unknown[] = [
  [1, "device.run", "r7", 4, "coordinator:0", { command: 3, toStep: 9, lossSum: 0.5, plateau: 1 }],
  [1, "host.release", "r7", 4, "coordinator:0", { command: 1, isOver: false }],
  [1, "part.saved", "r7", 4, "writer:0", { cut: 4, device: 0, of: 1, parts: [manifestPart] }],
  { run: "r1", job: jobs[0], list: [1, 2 ** 40, -3, 1.5, null, true, new Uint8Array(20)] },
];

const msgpack: Target = {
  name: "messages in msgpack",
  seeds: () => envelopes.map((value) => encode(value)),
  read(bytes) {
    decodeBody({ subject: "a.b", headers: {}, payload: bytes });
    messages.decode({ subject: "a.b", payload: bytes });
  },
  values: msgpackValues,
};

const jobRequests: Target = {
  name: "requests of jobs",
  seeds: () =>
    [
      { job: jobs[0], key: "k" },
      { run: "r1" },
      { run: "r1", since: 4, most: 20, after: "x" },
      { run: "r1", devices: 2, shard: 1, device: 0, samplesPerSecond: 5, reader: 0, step: 3 },
    ].flatMap((value) =>
      (["application/json", "application/msgpack"] as const).map(
        (type) => encodeBody(value, type).payload,
      ),
    ),
  read(bytes) {
    const body = decodeBody({ subject: "a.b", headers: {}, payload: bytes });
    const refused: unknown[] = [];
    for (const method of jobMethods) {
      try {
        checkOptions(requests[method], body);
      } catch (error) {
        if (!(error instanceof TrainingError)) throw error;
        refused.push(error);
      }
    }
    if (refused.length === jobMethods.length) throw refused[0];
  },
  values: jsonValues,
};

const served = resolveJob({
  model: {
    kind: "dlrm",
    dense: 2,
    tables: [
      { name: "a", rows: 90, dim: 4 },
      { name: "b", rows: 90, dim: 4, idBits: 64, dynamic: {} },
    ],
    bottom: [4],
    top: [1],
  },
  data: { kind: "synthetic", samples: 20, dense: 2, batchSize: 10 },
});

const tensor = (
  name: string,
  datatype: string,
  shape: readonly number[],
  data: readonly unknown[],
) => ({
  ...{ name, datatype, shape, data },
});

const openInference: Target = {
  name: "requests of tensors",
  seeds: () => {
    const [ids, dense] = [
      tensor("a", "INT64", [2, 1], [1, 2]),
      tensor("dense", "FP32", [2, 2], [0, 1, 2, 3]),
    ];
    const binary = {
      name: "a",
      datatype: "INT32",
      shape: [2],
      parameters: { binary_data_size: 8 },
    };
    return [
      { id: "1", inputs: [ids, dense], outputs: [{ name: "y" }] },
      { inputs: [tensor("x", "BYTES", [1, 2], ["a", "b"])], parameters: { timeout: 5 } },
      { inputs: [binary] },
    ].map((value) => {
      const json = Buffer.from(JSON.stringify(value));
      const rest = value.inputs[0] === binary ? [1, 0, 0, 0, 2, 0, 0, 0] : [];
      return Buffer.concat([Buffer.from(`${json.length}\n`), json, Buffer.from(rest)]);
    });
  },
  /** The first line of an input has the length of the JSON, which HTTP has in a header. */
  read(bytes) {
    const end = bytes.indexOf(10);
    const body = bytes.subarray(end + 1);
    const length = Buffer.from(bytes.subarray(0, end)).toString("latin1");
    readInfer(body, length, { job: served }, 1000);
  },
  values: {
    parse(bytes) {
      const end = bytes.indexOf(10);
      const length = Number(Buffer.from(bytes.subarray(0, end)).toString("latin1"));
      const value = jsonValues.parse(bytes.subarray(end + 1, end + 1 + length));
      return { value, binary: [...bytes.subarray(end + 1 + length)] };
    },
    write(given) {
      const { value, binary } = (given ?? {}) as { value?: unknown; binary?: unknown };
      const json = jsonValues.write(value);
      const rest = Array.isArray(binary) ? binary.map((byte) => Number(byte) & 255) : [];
      return Buffer.concat([Buffer.from(`${json.length}\n`), json, Buffer.from(rest)]);
    },
  },
};
const plainRequests: Target = {
  name: "requests of records",
  seeds: () =>
    texts(
      '{"instances":[{"a":1,"b":[1,2]},{"a":12345678901234567890}],"key":"u","timeout_ms":5}',
      '{"user":{"a":1},"candidates":[{"b":2},{"b":3}],"top":1,"by":"y"}',
    ),
  read(bytes) {
    const refused: unknown[] = [];
    for (const method of methods) {
      try {
        readPlain(method, jsonOf(bytes, 1000));
      } catch (error) {
        if (!(error instanceof TrainingError)) throw error;
        refused.push(error);
      }
    }
    if (refused.length === methods.length) throw refused[0];
  },
  values: jsonValues,
};

const limits = { controlLineBytesMax: 200, payloadBytesMax: 1000 };

const broker: Target = {
  name: "protocol of the broker",
  seeds: () =>
    texts(
      'CONNECT {"verbose":false,"name":"n","user":"u"}\r\nPING\r\nSUB a.* q 1\r\nPUB a.b 5\r\nhello\r\n',
      "HPUB a.b r 12 17\r\nNATS/1.0\r\n\r\nhello\r\nUNSUB 1 5\r\nPONG\r\n",
    ),
  read(bytes) {
    const ignore = () => undefined;
    const parser = new ProtocolParser(
      {
        ...{ refusalOf: ignore, publish: ignore, subscribe: ignore, unsubscribe: ignore },
        ...{ ping: ignore, pong: ignore, connect: (json) => void helloOf(json, noHello) },
      },
      limits,
    );
    const half = bytes.length >> 1;
    const violation =
      parser.push(Buffer.from(bytes.subarray(0, half))) ??
      parser.push(Buffer.from(bytes.subarray(half)));
    if (violation !== undefined) throw new FrameCorruptError("broker", String(violation));
  },
};

const frames: Target = {
  name: "frames between hosts",
  seeds: () => {
    const pieces = [{ route: 1, round: 2, first: 0, bytes: 8, total: 16 }];
    const frame = { generation: 1, from: 0, sequence: 5, ended: 0, seen: 4, missing: [2, 3] };
    return [encodeFrame({ ...frame, pieces }), encodeFrame({ ...frame, pieces: [] })].map(
      (headers) => Buffer.from(JSON.stringify(headers)),
    );
  },
  read(bytes) {
    const given: unknown = JSON.parse(Buffer.from(bytes).toString("utf8"));
    const headers = Object.fromEntries(
      Object.entries(given ?? {}).filter(([, value]) => typeof value === "string"),
    ) as Record<string, string>;
    decodeFrame({ subject: "a.b", headers, payload: new Uint8Array(8) } as never);
  },
  values: jsonValues,
  refusals: [SyntaxError],
};

export const messageTargets: readonly Target[] = [
  ...[exactJson, jobJson, jobYaml, msgpack, jobRequests],
  ...[openInference, plainRequests, broker, frames],
];
