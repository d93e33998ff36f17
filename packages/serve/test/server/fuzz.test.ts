// Hostile input: each input gets a sentence with a 4xx status as its answer, and the server's
// scores stay right.

import { once } from "node:events";
import { connect } from "node:net";
import test from "ava";
import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { recordsOf, startModel, startServer } from "../../../../test/helpers/models/served.ts";

const predict = "/v1/models/m:predict";
const infer = "/v2/models/m/infer";
const json = "application/json";

/** A hostile request. */
interface Hostile {
  readonly path: string;
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether the request may be valid by chance. */
  readonly mayPass?: boolean;
}

const instances = recordsOf(2);
const tensor = { name: "A", datatype: "BYTES", shape: [2], data: ["1", "2"] };
const deep = (levels: number) => `{"instances":${"[".repeat(levels)}${"]".repeat(levels)}}`;
const tensors = (...inputs: object[]): Hostile => ({
  path: infer,
  body: JSON.stringify({ inputs }),
});

/** Hand-written cases. */
const known: readonly Hostile[] = [
  { path: predict, body: "" },
  { path: predict, body: "null" },
  { path: predict, body: "[1]" },
  { path: predict, body: '"text"' },
  { path: predict, body: '{"instances":NaN}' },
  { path: predict, body: '{"instances":[{"I1":1e999,"A":1}]}' },
  { path: predict, body: '{"instances":[{"A":-1}]}' },
  { path: predict, body: '{"instances":[{"A":50}]}' },
  { path: predict, body: '{"instances":[{"A":1.5}]}' },
  { path: predict, body: '{"instances":[{"A":1e300}]}' },
  { path: predict, body: '{"instances":[{"A":{"toString":1}}]}' },
  { path: predict, body: '{"instances":[{"A":[[1]]}]}' },
  { path: predict, body: '{"instances":[null]}' },
  { path: predict, body: '{"instances":[[1,2]]}' },
  { path: predict, body: '{"instances":{"length":3}}' },
  { path: predict, body: '{"instances":[{"__proto__":{"A":1}}]}' },
  { path: predict, body: '{"instances":[{"constructor":1,"prototype":2}]}' },
  { path: predict, body: '{"__proto__":{"instances":[{"A":1}]}}' },
  { path: predict, body: '{"instances":[],"timeout_ms":-1}' },
  { path: predict, body: '{"instances":[],"key":{}}' },
  { path: predict, body: deep(17) },
  { path: predict, body: deep(100_000) },
  { path: predict, body: Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]) },
  { path: "/v1/models/m:rank", body: '{"user":[],"candidates":[]}' },
  { path: "/v1/models/m:rank", body: '{"user":{},"candidates":[1]}' },
  { path: "/v1/models/m:rank", body: '{"user":{},"candidates":[{"A":1}],"top":1.5}' },
  { path: "/v1/models/m:rank", body: '{"user":{},"candidates":[{"A":1}],"by":"nothing"}' },
  { path: "/v1/models/__proto__:predict", body: '{"instances":[]}' },
  { path: "/v1/models/m/versions/%00:predict", body: '{"instances":[]}' },
  { path: "/v1/models/%ff:predict", body: '{"instances":[]}' },
  { path: "/v2/models/m/versions/../../infer", body: "{}" },
  { path: `/${"x".repeat(8000)}`, body: "{}" },
  { path: infer, body: '{"inputs":[]}' },
  { path: infer, body: '{"inputs":[null]}' },
  tensors(tensor, tensor),
  tensors({ ...tensor, shape: [2 ** 31, 2 ** 31] }),
  tensors({ ...tensor, shape: [-1] }),
  tensors({ ...tensor, shape: [1.5] }),
  tensors({ ...tensor, shape: [1e308] }),
  tensors({ ...tensor, shape: [] }),
  tensors({ ...tensor, shape: [2, 1, 1, 1, 1] }),
  tensors({ ...tensor, shape: [3] }),
  tensors({ ...tensor, shape: [0, 2 ** 40] }),
  tensors({ ...tensor, datatype: "FP16" }),
  tensors({ ...tensor, datatype: "constructor" }),
  tensors({ ...tensor, datatype: "INT64" }),
  tensors({ ...tensor, datatype: "INT8", data: [1, 300] }),
  tensors({ ...tensor, data: ["1", { a: 1 }] }),
  tensors({ ...tensor, data: [["1"], [["2"]]] }),
  tensors({ ...tensor, name: "__proto__" }),
  tensors({ ...tensor, name: "" }),
  tensors({ ...tensor, parameters: { binary_data_size: 2 ** 50 } }),
  tensors({ ...tensor, parameters: { binary_data_size: -4 } }),
  tensors(tensor, { name: "A.lengths", datatype: "INT64", shape: [1], data: [3] }),
  tensors(tensor, { name: "A.lengths", datatype: "INT64", shape: [1], data: [2 ** 52] }),
  tensors({ name: "A.rows", datatype: "INT64", shape: [1], data: [1] }),
  ...["-1", "0", "1e9", "NaN", "", "0x10", "99999999999999999999"].map((length) => ({
    path: infer,
    body: JSON.stringify({ inputs: [tensor] }),
    headers: { "inference-header-content-length": length },
  })),
  { path: predict, body: "{}", headers: { "content-type": "multipart/form-data; boundary=x" } },
  { path: predict, body: "{}", headers: { "content-encoding": "br" } },
];

/** A valid request with some bytes changed, removed or inserted. */
function mutated(random: RandomStream): Hostile {
  const isTensor = random.below(2) === 0;
  const whole = isTensor ? { inputs: [tensor] } : { instances };
  let body = Buffer.from(JSON.stringify(whole));
  for (let times = 1 + random.below(4); times > 0; times--) {
    const at = random.below(body.length);
    const [head, tail] = [body.subarray(0, at), body.subarray(at)];
    const kind = random.below(4);
    if (kind === 0) body = head.length === 0 ? tail : Buffer.from(head);
    else if (kind === 1) body = Buffer.concat([head, tail.subarray(1 + random.below(5))]);
    else if (kind === 2) body = Buffer.concat([head, Buffer.from([random.below(256)]), tail]);
    else body = Buffer.concat([head, Buffer.from('{"a":[1e99,'), tail]);
  }
  return { path: isTensor ? infer : predict, body, mayPass: true };
}

const seed = 24;

test("every hostile body is refused in a sentence, and later scores are right", async (t) => {
  const model = await startModel(t);
  const { server, post } = await startServer(t, { models: { m: { path: model.directory } } });
  const expected = [...(await server.predict("m", instances)).scores];
  const random = new RandomStream(seed, purposes.faults);
  const drawn = Array.from({ length: 150 }, () => mutated(random));
  for (const [i, { path, body, headers = {}, mayPass }] of [...known, ...drawn].entries()) {
    const sent = { "content-type": json, ...headers };
    const response = await fetch(`${server.url}${path}`, { method: "POST", body, headers: sent });
    const text = await response.text();
    const about = `seed ${seed}, case ${i}: ${path.slice(0, 40)} ${body.slice(0, 60)} → ${text}`;
    if (mayPass === true && response.status === 200) continue;
    t.true(response.status >= 400 && response.status < 500, about);
    t.regex(JSON.parse(text).error, /^[A-Z].{15}/, about);
    if (i % 20 > 0) continue;
    t.deepEqual((await post(predict, { instances })).body.predictions, expected);
  }
  t.deepEqual((await post(predict, { instances })).body.predictions, expected);
  t.is(({} as { A?: unknown }).A, undefined);
});

/** The bytes with which a server answers `pieces`, until it closes the connection. */
async function received(port: number, ...pieces: readonly string[]): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  socket.on("data", (data) => {
    text += data;
  });
  socket.on("error", () => {});
  const closed = once(socket, "close");
  for (const piece of pieces) socket.write(piece, "latin1");
  socket.end();
  await closed;
  return text;
}

test("hostile bytes on a connection end only that connection", async (t) => {
  const model = await startModel(t);
  const options = { models: { m: { path: model.directory } }, requestBytes: 4096 };
  const { server, post } = await startServer(t, options);
  const port = Number(new URL(server.url).port);
  const head = (more: string) => `POST ${predict} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`;
  const body = JSON.stringify({ instances });
  const wrong: [string, string[], RegExp][] = [
    ["no HTTP", ["\0\x01\x02 nothing\r\n\r\n"], /^HTTP\/1\.1 400 /],
    ["no host", [`GET /v2 HTTP/1.1\r\n\r\n`], /^HTTP\/1\.1 400 /],
    ["a length below 0", [head("Content-Length: -5\r\n")], /^HTTP\/1\.1 400 /],
    ["a chunk of no size", [head("Transfer-Encoding: chunked\r\n"), "zz\r\nab\r\n"], / 400 /],
    ["headers without end", [head(`X: ${"y".repeat(20_000)}\r\n`)], /^HTTP\/1\.1 431 /],
    [
      "chunks beyond the limit",
      [head("Transfer-Encoding: chunked\r\n"), `2000\r\n${"x".repeat(8192)}\r\n`],
      /^HTTP\/1\.1 413 /,
    ],
    ["a body that breaks off", [head("Content-Length: 99\r\n"), "{"], /^(HTTP\/1\.1 4|$)/],
    ["CONNECT", ["CONNECT evil.example:1 HTTP/1.1\r\nHost: localhost\r\n\r\n"], /^(HTTP|$)/],
    [
      "pipelined requests",
      Array.from({ length: 3 }, () => `${head(`Content-Length: ${body.length}\r\n`)}${body}`),
      /(HTTP\/1\.1 200 OK[\s\S]*predictions[\s\S]*){3}/,
    ],
    [
      "chunks of a byte each",
      [
        head("Transfer-Encoding: chunked\r\nConnection: close\r\n"),
        ...[...body].map((one) => `1\r\n${one}\r\n`),
        "0\r\n\r\n",
      ],
      /^HTTP\/1\.1 200 /,
    ],
  ];
  const answers = await Promise.all(wrong.map(([, pieces]) => received(port, ...pieces)));
  for (const [i, [name, , expected]] of wrong.entries()) t.regex(answers[i] ?? "", expected, name);
  t.is((await post(predict, { instances })).status, 200);
});

/** A request that follows a head; another server could take it for the body of the head. */
const hidden = "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
const length = `Content-Length: ${hidden.length}`;
const post = (headers: string, line = `POST ${predict} HTTP/1.1`) =>
  `${line}\r\nHost: localhost\r\n${headers}\r\n\r\n`;
const chunks = (text: string) => post("Transfer-Encoding: chunked") + text;

/**
 * Heads and chunks that servers read differently, so that one of them sees a second request where
 * another sees a body (RFC 9112, sections 2.2, 5, 6, 7.1 and 11.2).
 */
const ambiguous: Readonly<Record<string, string>> = {
  "line ends of LF alone": post(length).replaceAll("\r\n", "\n"),
  "a length behind LF alone": post(`X: a\n${length}`),
  "a length behind CR alone": post(`X: a\r${length}`),
  "an empty line of LF alone": `POST ${predict} HTTP/1.1\r\nHost: localhost\r\n${length}\r\n\n`,
  "a folded header": post(`X: a\r\n ${length}`),
  "a folded length": post(`Content-Length:\r\n ${hidden.length}`),
  "a folded first header": `POST ${predict} HTTP/1.1\r\n Host: localhost\r\n${length}\r\n\r\n`,
  "the same length twice": post(`${length}\r\n${length}`),
  "two lengths": post(`Content-Length: 0\r\n${length}`),
  "a list of lengths": post(`Content-Length: 0, ${hidden.length}`),
  "two lengths with a space": post(`Content-Length: 0 ${hidden.length}`),
  "a length with a sign": post(`Content-Length: +${hidden.length}`),
  "a hexadecimal length": post(`Content-Length: 0x${hidden.length.toString(16)}`),
  "a length beyond 64 bits": post("Content-Length: 18446744073709551616"),
  "a length behind a vertical tab": post(`Content-Length: \x0b${hidden.length}`),
  "a space before the colon": post(length.replace(":", " :")),
  "a tab before the colon": post(length.replace(":", "\t:")),
  "no colon": post(length.replace(":", "")),
  "NUL in a name": post(length.replace(":", "\0:")),
  "NUL in a value": post(`X: a\0\r\n${length}`),
  "chunks and a length": `${post(`Transfer-Encoding: chunked\r\nContent-Length: 5`)}0\r\n\r\n`,
  "a length and chunks": `${post(`${length}\r\nTransfer-Encoding: chunked`)}0\r\n\r\n`,
  "an unknown encoding": `${post("Transfer-Encoding: xchunked")}0\r\n\r\n`,
  "an encoding behind chunks": `${post("Transfer-Encoding: chunked, identity")}0\r\n\r\n`,
  "two encodings": `${post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")}0\r\n\r\n`,
  "a quoted encoding": `${post('Transfer-Encoding: "chunked"')}0\r\n\r\n`,
  "an encoding before a colon with a space": `${post("Transfer-Encoding : chunked")}0\r\n\r\n`,
  "chunks in HTTP/1.0": chunks("0\r\n\r\n").replace("HTTP/1.1", "HTTP/1.0"),
  "a chunk extension with LF alone": chunks("2;a\n{}\r\n0\r\n\r\n"),
  "a chunk extension with CR alone": chunks("2;a\rb\r\n{}\r\n0\r\n\r\n"),
  "a chunk size with LF alone": chunks("2\n{}\r\n0\r\n\r\n"),
  "a chunk size with a space": chunks("2 \r\n{}\r\n0\r\n\r\n"),
  "a chunk size with a sign": chunks("+2\r\n{}\r\n0\r\n\r\n"),
  "a chunk size with 0x": chunks("0x2\r\n{}\r\n0\r\n\r\n"),
  "a chunk size beyond 64 bits": chunks("10000000000000002\r\n{}\r\n0\r\n\r\n"),
  "a chunk longer than its size": chunks("2\r\n{}xx\r\n0\r\n\r\n"),
  "a chunk without its end": chunks("2\r\n{}0\r\n\r\n"),
  "a length behind chunks": chunks(`2\r\n{}\r\n0\r\n${length}\r\n\r\n`),
  "a space in the path": post(length, `POST ${predict} x HTTP/1.1`),
  "another version": post(length, `POST ${predict} HTTP/1.2`),
  "a request behind the last one": `${post("Connection: close\r\nContent-Length: 2")}{}`,
  "headers beyond the limit": post(`X: ${"y".repeat(20_000)}\r\n${length}`),
};

test("no request is hidden in another one: ambiguous requests are refused, and end the connection", async (t) => {
  const model = await startModel(t);
  const { server } = await startServer(t, { models: { m: { path: model.directory } } });
  const port = Number(new URL(server.url).port);
  for (const [name, text] of Object.entries(ambiguous)) {
    const answer = await received(port, text + hidden);
    t.regex(answer, /^HTTP\/1\.1 4\d\d [\s\S]*connection: close/i, name);
    t.is(answer.match(/HTTP\/1\.1 \d/g)?.length, 1, `${name}: ${answer}`);
    t.notRegex(answer, /"live":true/, name);
  }
  // A target in absolute form is unambiguous: no such path, and the hidden request is the body.
  const absolute = post(length, `POST http://elsewhere${predict} HTTP/1.1`);
  t.regex(await received(port, absolute + hidden), /^HTTP\/1\.1 404 /);
  t.regex(await received(port, hidden), /"live":true/, "the hidden request itself is answered");
});
