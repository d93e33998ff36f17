// A model server limits clients that do not read answers and clients that send much at once, and
// drains open connections when it closes.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import test from "ava";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import { recordsOf, startModel, startServer } from "../../../../test/helpers/models/served.ts";
import { until } from "../../../../test/helpers/until.ts";
import { SlowReaders, type Written } from "../../server/protocols/slow-readers.ts";

/** A fake socket whose buffered bytes the test controls. */
function socketOf(writableLength: number) {
  const socket = {
    writableLength,
    destroyed: false,
    destroy() {
      socket.destroyed = true;
      return socket as never;
    },
  };
  return socket satisfies Written;
}

test("a connection is closed if its client reads nothing, but not if the client reads slowly", (t) => {
  const clock = new SimulatedClock();
  const slow = new SlowReaders({ stalledMs: 10_000, checkMs: 500, clock });
  const [stalled, sipping, quick] = [socketOf(1_000_000), socketOf(1_000_000), socketOf(0)];
  for (const socket of [stalled, sipping, quick]) slow.watch(socket);
  t.is(slow.count, 2, "a socket without buffered bytes is not watched");
  for (let second = 0; second < 100; second++) {
    clock.advance(1000);
    sipping.writableLength -= 1000;
  }
  t.deepEqual(
    [stalled, sipping, quick].map(({ destroyed }) => destroyed),
    [true, false, false],
  );
  sipping.writableLength = 0;
  clock.advance(1000);
  t.is(slow.count, 0);
});

/** The bytes that a connection receives until it is closed. */
async function answerOf(socket: Socket): Promise<string> {
  let text = "";
  socket.setEncoding("latin1").on("data", (chunk: string) => {
    text += chunk;
  });
  await once(socket, "close");
  return text;
}

/** A connection to a server, and the bytes that it receives until it is closed. */
function open(port: number) {
  const socket = connect(port, "127.0.0.1");
  return { socket, received: answerOf(socket) };
}

const headOf = (bytes: number) =>
  "POST /v1/models/m:predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n" +
  `content-length: ${bytes}\r\n\r\n`;

test.serial(
  "incoming bodies share a byte limit, and stop counting when they are read or refused",
  async (t) => {
    const { directory } = await startModel(t);
    const models = { m: { path: directory } };
    const { server, post } = await startServer(t, { models, readingBytes: 300_000 });
    const port = Number(new URL(server.url).port);
    const first = connect(port, "127.0.0.1");
    first.write(headOf(400_000) + "[".repeat(200_000));
    const other = connect(port, "127.0.0.1");
    other.write(headOf(400_000));
    // The request that exceeds the common limit is refused, and its bytes no longer count.
    other.write("[".repeat(200_000));
    const answer = await Promise.race([answerOf(first), answerOf(other)]);
    t.regex(answer, /^HTTP\/1\.1 503 [\s\S]*SERVER_FULL/);
    first.destroy();
    other.destroy();
    const body = { instances: recordsOf(2) };
    const padded = JSON.stringify(body) + " ".repeat(200_000);
    for (let i = 0; i < 3; i++) t.is((await post("/v1/models/m:predict", padded)).status, 200);
  },
);

test.serial("bytes behind a request that are not HTTP are refused after its answer", async (t) => {
  const { directory } = await startModel(t);
  const { server } = await startServer(t, { models: { m: { path: directory } } });
  const body = JSON.stringify({ instances: recordsOf(1) });
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.write(`${headOf(body.length)}${body}\0 what\r\n\r\n`);
  const [first = "", second = ""] = (await answerOf(socket)).split(/(?=HTTP\/1\.1 \d)/);
  t.regex(first, /^HTTP\/1\.1 200 [\s\S]*predictions/);
  t.regex(second, /^HTTP\/1\.1 400 [\s\S]*REQUEST_UNUSABLE/);
});

test.serial(
  "a closing server reports that it is not ready, and closes each connection after its answer",
  async (t) => {
    const { directory } = await startModel(t);
    const models = { m: { path: directory } };
    const { server } = await startServer(t, { models, leaveMs: 600_000 });
    const port = Number(new URL(server.url).port);
    const kept = connect(port, "127.0.0.1");
    await once(kept, "connect");
    const closing = server.close();
    // It still listens, so that a probe sees that it is not ready.
    const probe = connect(port, "127.0.0.1");
    probe.write("GET /v2/health/ready HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    const [head = "", text = ""] = (await answerOf(probe)).split("\r\n\r\n");
    t.regex(head, /^HTTP\/1\.1 503 [\s\S]*connection: close/i);
    t.deepEqual(JSON.parse(text), { ready: false });
    const body = JSON.stringify({ instances: recordsOf(1) });
    kept.write(headOf(body.length) + body);
    t.regex(await answerOf(kept), /^HTTP\/1\.1 200 [\s\S]*connection: close[\s\S]*predictions/i);
    await closing; // Resolves at once: no connection is open.
    const late = connect(port, "127.0.0.1");
    const [error] = await once(late, "error");
    t.is(error.code, "ECONNREFUSED");
  },
);

test.serial(
  "a client that is silent or slow is refused and cut off, even if it stays",
  async (t) => {
    const { directory } = await startModel(t);
    const models = { m: { path: directory } };
    const { server } = await startServer(t, { models, requestMs: 200 });
    const port = Number(new URL(server.url).port);
    for (const sent of ["", `${headOf(99)}{`]) {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk;
      });
      socket.on("error", () => {});
      socket.write(sent);
      await once(socket, "end");
      t.regex(text, /^HTTP\/1\.1 408 /);
      // The server resets the connection, so that a write fails.
      await until("the reset of the connection", () => {
        if (!socket.destroyed) socket.write("x");
        return socket.destroyed;
      });
      t.true(socket.destroyed);
    }
  },
);

test.serial(
  "a client that half-closes after its requests is answered, within a request it is refused",
  async (t) => {
    const { directory } = await startModel(t);
    const { server } = await startServer(t, { models: { m: { path: directory } } });
    const port = Number(new URL(server.url).port);
    const body = JSON.stringify({ instances: recordsOf(2) });
    const request = headOf(body.length) + body;
    const [whole, half] = [open(port), open(port)];
    whole.socket.end(request + request);
    half.socket.end(request.slice(0, -3));
    t.regex(
      await whole.received,
      /^HTTP\/1\.1 200 [\s\S]*predictions[\s\S]*HTTP\/1\.1 200 [\s\S]*predictions/,
    );
    t.regex(await half.received, /^HTTP\/1\.1 400 /);
  },
);

test.serial(
  "a closing server closes idle connections, and answers an incomplete request",
  async (t) => {
    const { directory } = await startModel(t);
    const { server } = await startServer(t, { models: { m: { path: directory } } });
    const port = Number(new URL(server.url).port);
    const body = JSON.stringify({ instances: recordsOf(2) });
    const [idle, busy] = [open(port), open(port)];
    idle.socket.write(headOf(body.length) + body);
    busy.socket.write(headOf(body.length) + body.slice(0, -5));
    await once(idle.socket, "data"); // The server has read both connections by its answer.
    const closing = server.close();
    t.regex(await idle.received, /^HTTP\/1\.1 200 /);
    busy.socket.write(body.slice(-5));
    t.regex(await busy.received, /^HTTP\/1\.1 503 [\s\S]*connection: close[\s\S]*SERVER_DRAINING/i);
    await closing;
  },
);
