// Requests in the usual form take a fast path, and node's HTTP parser handles all others: both
// parse the same, and a connection may change from one to the other.

import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, createServer as createTcp, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import test from "ava";
import { realClock } from "../../../../src/ports/clock.ts";
import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { recordsOf, startModel, startServer } from "../../../../test/helpers/models/served.ts";
import { QuickConnections } from "../../server/protocols/quick-connections.ts";
import { headOf } from "../../server/protocols/request-heads.ts";

const seed = 5;
const usual = [
  "POST /v1/models/m:predict HTTP/1.1",
  "Host: 127.0.0.1:8080",
  "Content-Type: application/json",
  "content-LENGTH: 4",
  "X-Odd: \t a  b ",
  "Authorization: Bearer a=b/c+d",
  "osiris-timeout-ms: 50",
];

/**
 * A request head that differs from the usual one by one or two changes: a line dropped, doubled,
 * moved or damaged.
 */
function changedHead(random: RandomStream): string {
  const lines = [...usual];
  for (let times = 1 + random.below(2); times > 0; times--) {
    const at = random.below(lines.length);
    const line = lines[at] ?? "";
    const place = random.below(line.length + 1);
    const odd = ["\0", "\n", "\r", " ", "\t", ":", "é", "%", '"', "\x7f", "a", ", 4"];
    const other = ["Transfer-Encoding: chunked", "Connection: close", "Expect: x", "Upgrade: h2c"];
    switch (random.below(5)) {
      case 0:
        lines.splice(at, 1);
        break;
      case 1:
        lines.splice(at, 0, line);
        break;
      case 2:
        lines.splice(1, 0, other[random.below(other.length)] ?? "");
        break;
      case 3:
        lines[at] = line.slice(0, place) + odd[random.below(odd.length)] + line.slice(place);
        break;
      default:
        lines[at] = line.slice(0, place) + line.slice(place + 1);
    }
  }
  return lines.join("\r\n");
}

test.serial("the fast path parses a request head exactly as node does", async (t) => {
  const server = createServer((request, response) => {
    request.setEncoding("latin1");
    let body = "";
    request.on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      const { method, url, headers } = request;
      response.end(JSON.stringify({ method, url, headers, body }));
    });
  });
  server.listen(0, "127.0.0.1");
  t.teardown(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const random = new RandomStream(seed, purposes.faults);
  let [read, left] = [0, 0];
  for (let i = 0; i < 1500; i++) {
    const text = i === 0 ? usual.join("\r\n") : changedHead(random);
    const head = headOf(text);
    if (head === undefined) {
      left++;
      continue;
    }
    read++;
    const body = "x".repeat(head.bodyBytes);
    const answer = await toldBy(port, `${text}\r\n\r\n${body}`);
    const about = `seed ${seed}, head ${i}: ${JSON.stringify(text)}`;
    t.regex(answer, /^HTTP\/1\.1 200 /, about);
    const { url, headers } = head;
    const told = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
    const expected = { method: "POST", url, headers: Object.fromEntries(headers), body };
    t.deepEqual(told, expected, about);
  }
  t.true(read > 100 && left > 500, `${read} heads were read, ${left} were not`);
});

/** The server's answer to `text`. */
async function toldBy(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  let told = "";
  socket.on("data", (data) => {
    told += data;
  });
  socket.on("error", () => {});
  socket.write(Buffer.from(text, "latin1"));
  const isWhole = () => /^[\s\S]*\r\n\r\n./.test(told);
  for (let turn = 0; turn < 1000 && !isWhole() && !socket.destroyed; turn++) await sleep(2);
  socket.destroy();
  return told;
}

const body = JSON.stringify({ instances: recordsOf(2) });
const post = (more = "", text = body) =>
  `POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\n${more}` +
  `Content-Length: ${text.length}\r\n\r\n${text}`;
const chunked =
  "POST /v1/models/m:predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
  `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
const probe = "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

async function startHere(t: Parameters<typeof startModel>[0], more = {}) {
  const { directory } = await startModel(t);
  const options = { models: { m: { path: directory } }, ...more };
  const started = await startServer(t, options);
  const { port } = new URL(started.server.url);
  return { ...started, port: Number(port) };
}

/** Opens a connection; returns the bodies of its answers, and a promise of its end. */
function open(port: number) {
  const socket = connect(port, "127.0.0.1").setNoDelay(true);
  let told = "";
  socket.on("data", (data) => {
    told += data;
  });
  socket.on("error", () => {});
  const isClosed = new Promise((resolve) => socket.once("close", resolve)); // Or reset.
  const bodies = () => [...told.matchAll(/\r\n\r\n(\{[^\r]*\})(?=HTTP|$)/g)].map(([, one]) => one);
  const until = async (count: number) => {
    for (let turn = 0; turn < 2000 && bodies().length < count; turn++) await sleep(5);
    return bodies();
  };
  return { socket, until, isClosed, told: () => told };
}

test.serial(
  "requests in any form on one connection get the same answers, in their order",
  async (t) => {
    const { port } = await startHere(t);
    for (const requests of [
      [post(), post(), post()],
      [post(), chunked, post()],
      [chunked, post(), probe, post("X: é\r\n")],
      [post("Expect: 100-continue\r\n"), post()],
      [probe, post()],
    ]) {
      // One after the other, all at once, and byte by byte.
      for (const way of ["turns", "once", "bytes"] as const) {
        const { socket, until, told } = open(port);
        for (const [i, request] of requests.entries()) {
          if (way !== "bytes") socket.write(Buffer.from(request, "latin1"));
          else {
            for (const one of Buffer.from(request, "latin1")) {
              socket.write(Buffer.of(one));
              if (one === 10) await sleep(1);
            }
          }
          if (way === "turns") await until(i + 1);
        }
        const bodies = await until(requests.length);
        socket.destroy();
        t.is(bodies.length, requests.length, `${way}: ${told()}`);
        const scored = bodies.filter((_, i) => requests[i] !== probe);
        t.is(new Set(scored).size, 1, way);
        t.regex(scored[0] ?? "", /^\{"predictions":\[0\.\d+,0\.\d+\]/);
      }
    }
  },
);

test.serial(
  "a client that half-closes after its requests is answered, within a request it is refused",
  async (t) => {
    const { port } = await startHere(t);
    const whole = open(port);
    whole.socket.end(post() + post());
    await whole.isClosed;
    t.is((await whole.until(0)).length, 2);
    const half = open(port);
    half.socket.end(post().slice(0, -3));
    await half.isClosed;
    t.regex(half.told(), /^HTTP\/1\.1 400 /);
  },
);

test.serial(
  "a closing server closes idle connections, and answers accepted requests",
  async (t) => {
    const { server, port } = await startHere(t);
    const resting = open(port);
    resting.socket.write(post());
    await resting.until(1);
    const within = open(port);
    const text = post();
    within.socket.write(post() + text.slice(0, -5)); // It has both by its first answer.
    await within.until(1);
    const closing = server.close();
    await resting.isClosed;
    within.socket.write(text.slice(-5));
    await within.isClosed;
    t.regex(within.told(), /HTTP\/1\.1 503 [\s\S]*connection: close[\s\S]*SERVER_DRAINING/);
    await closing;
  },
);

test.serial("a client that is slow, silent or idle for too long is disconnected", async (t) => {
  const started = async (times: { requestMs: number; keepAliveMs: number }) => {
    const refused: (string | undefined)[] = [];
    const quick = new QuickConnections({
      ...{ ...times, checkMs: 20, clock: realClock },
      answer: async () => ({ status: 200, type: "application/json", body: "{}" }),
      isLeaving: () => false,
      onWritten: () => {},
      handOver: (socket) => socket.destroy(),
      refuse: ({ code }) => refused.push(code),
    });
    const accepted: Socket[] = [];
    const server = createTcp({ allowHalfOpen: true }, (socket) => {
      accepted.push(socket);
      quick.take(socket);
    });
    server.listen(0, "127.0.0.1");
    t.teardown(() => server.close());
    await once(server, "listening");
    return { port: (server.address() as AddressInfo).port, refused, accepted };
  };
  const strict = await started({ requestMs: 300, keepAliveMs: 60_000 });
  const silent = open(strict.port);
  const slow = open(strict.port);
  slow.socket.write(post().slice(0, -1));
  await Promise.all([silent.isClosed, slow.isClosed]);
  t.deepEqual(strict.refused, ["ERR_HTTP_REQUEST_TIMEOUT", "ERR_HTTP_REQUEST_TIMEOUT"]);
  const restless = await started({ requestMs: 60_000, keepAliveMs: 100 });
  const resting = open(restless.port);
  resting.socket.write(post());
  await resting.isClosed;
  t.is((await resting.until(1)).length, 1);
  t.deepEqual(restless.refused, []);
  const accepted = [...strict.accepted, ...restless.accepted];
  t.deepEqual(
    accepted.map(({ destroyed }) => destroyed),
    [true, true, true],
  );
});
