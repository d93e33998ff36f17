// Streams of a real nats-server, read in order while messages are deleted or dropped, or the server
// stops.

import type { ExecutionContext } from "ava";
import {
  startStreams,
  type TestStreams,
} from "../../../packages/ingest/test/streams/nats-streams.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import {
  openStreamSource,
  type StoredMessage,
  type StreamSource,
} from "../../../src/wire/jetstream/stream-reader.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";

const numbers = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, i) => ({ n: first + i }));

async function startReader(t: ExecutionContext, count: number) {
  const streams = await startStreams(t);
  await streams.add("s");
  await streams.publish("s", numbers(1, count));
  const source = await openStreamSource({ servers: streams.url, name: "t", deadlineMs: 60_000 });
  t.teardown(() => source.close());
  const controller = new AbortController();
  t.teardown(() => controller.abort());
  const { created } = await source.facts("s");
  const read = (from: number, until?: number) =>
    source.read("s", { created, from, until, signal: controller.signal });
  return { streams, source, read, controller };
}

async function all(reader: AsyncGenerator<StoredMessage, void>): Promise<number[]> {
  const found: number[] = [];
  for await (const { sequence, data } of reader) {
    found.push(sequence, JSON.parse(Buffer.from(data).toString()).n);
  }
  return found;
}

/** Deletes the stream's consumers, as the server does with inactive ones; returns their number. */
async function forgetConsumers({ manager }: TestStreams): Promise<number> {
  let forgotten = 0;
  for await (const { name } of manager.consumers.list("s")) {
    await manager.consumers.delete("s", name);
    forgotten++;
  }
  return forgotten;
}

testIf(natsServer)(
  "a range of messages is read in order, and deleted messages are skipped",
  async (t) => {
    const { streams, source, read } = await startReader(t, 10);
    t.deepEqual(await all(read(8, 10)), [8, 8, 9, 9, 10, 10]);
    t.deepEqual(await all(read(2, 3)), [2, 2, 3, 3]);
    t.deepEqual(await all(read(11, 10)), []);
    await streams.manager.streams.deleteMessage("s", 9);
    t.deepEqual(await all(read(8, 10)), [8, 8, 10, 10]);
    // Deleted messages at the end of the range are not waited for.
    await streams.manager.streams.deleteMessage("s", 10);
    t.deepEqual(await all(read(7, 10)), [7, 7, 8, 8]);
    t.deepEqual(await all(read(10, 10)), []);
    const { first, last } = await source.facts("s");
    t.deepEqual([first, last], [1, 10]);
    t.is(await forgetConsumers(streams), 0); // Each reader has deleted its own.
  },
);

testIf(natsServer)(
  "a consumer that the server deleted is created again, at the next message",
  async (t) => {
    const { streams, read } = await startReader(t, 3);
    const reader = read(1);
    const next = async () => (await reader.next()).value?.sequence;
    t.deepEqual([await next(), await next(), await next()], [1, 2, 3]);
    t.is(await forgetConsumers(streams), 1);
    await streams.publish("s", numbers(4, 5));
    t.deepEqual([await next(), await next()], [4, 5]);
  },
);

testIf(natsServer)(
  "messages that a stream drops before they are read cause an error, not a gap",
  async (t) => {
    const { streams, read } = await startReader(t, 300);
    const reader = read(2);
    await reader.next();
    await streams.manager.streams.purge("s", { seq: 250 });
    const message = /the stream s: it no longer has the messages \d+ to 249/;
    await t.throwsAsync(all(reader), { code: "STREAM_TRIMMED", message });
    await t.throwsAsync(all(read(1, 300)), { code: "STREAM_TRIMMED" });
  },
);

testIf(natsServer)(
  "messages of another stream that has the name of the stream are not read",
  async (t) => {
    const { streams, read } = await startReader(t, 2);
    const reader = read(1);
    t.is((await reader.next()).value?.sequence, 1);
    t.is((await reader.next()).value?.sequence, 2);
    await streams.manager.streams.delete("s");
    await streams.add("s");
    await streams.publish("s", numbers(11, 14));
    const foreign = { code: "INPUT_UNUSABLE", message: /^The stream s was created again/ };
    await t.throwsAsync(reader.next(), foreign);
    await t.throwsAsync(all(read(3, 4)), foreign);
    await t.throwsAsync(all(read(5, 10)), foreign); // These messages will never come.
  },
);

testIf(natsServer)("an aborted reader ends, whether it waits or not", async (t) => {
  const { read, controller } = await startReader(t, 2);
  const reader = read(1);
  await reader.next();
  await reader.next();
  const waiting = reader.next();
  controller.abort();
  t.is((await waiting).done, true);
  t.deepEqual(await all(read(1, 2)), []);
});

testIf(natsServer)("a server that is silent for a minute counts as lost", async (t) => {
  const { streams } = await startReader(t, 1);
  const clock = new SimulatedClock();
  // The connection uses real time: the clock is for the reader.
  const source: StreamSource = await openStreamSource({
    ...{ servers: streams.url, name: "t", deadlineMs: 60_000 },
    clock,
  });
  t.teardown(() => source.close());
  const { signal } = new AbortController();
  const { created } = await source.facts("s");
  const reader = source.read("s", { created, from: 1, until: undefined, signal });
  t.is((await reader.next()).value?.sequence, 1);
  await streams.stop();
  const failed = t.throwsAsync(async () => reader.next(), {
    code: "TRANSPORT_LOST",
    message: /silent for 60000 ms/,
  });
  let isOver = false;
  void failed.then(() => {
    isOver = true;
  });
  while (!isOver) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    clock.advance(1000);
  }
  await failed;
});

testIf(natsServer)("a server without JetStream is refused", async (t) => {
  const server = await startNatsServer();
  t.teardown(() => server.kill());
  const opened = openStreamSource({ servers: server.url, name: "t", deadlineMs: 60_000 });
  await t.throwsAsync(opened, { code: "INPUT_UNUSABLE", message: /has no JetStream: start it/ });
});
