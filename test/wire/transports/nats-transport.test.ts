// The NATS client with a broker that starts late, stops, restarts or stalls.

import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import test from "ava";
import {
  InvalidOptionError,
  RequestFailedError,
  TransportFullError,
  TransportLostError,
} from "../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { startBroker } from "../../../src/wire/broker/broker.ts";
import { startBrokerThread } from "../../../src/wire/broker/broker-thread.ts";
import type { Transport } from "../../../src/wire/messages/transport.ts";
import { type ConnectOptions, connectNats } from "../../../src/wire/transports/nats-transport.ts";

const options = { name: "tester", deadlineMs: 60_000 } as const;

function statusOf(transport: Transport, wanted: string): Promise<void> {
  return new Promise((resolve) => {
    transport.onStatus((status) => {
      if (status === wanted) resolve();
    });
  });
}

for (const end of ["close", "kill"] as const) {
  test(`a client outlives its broker (${end}) and reconnects on the same port`, async (t) => {
    const first = await startBrokerThread();
    const { url, port, auth } = first;
    const login = auth === "open" ? {} : auth;
    const errors: unknown[] = [];
    const onError = (error: unknown) => errors.push(error);
    const client = await connectNats({ ...options, ...login, servers: url, onError });
    const seen: number[] = [];
    client.subscribe("n.*", (frame) => seen.push(frame.payload[0] ?? -1));
    client.subscribe("ask", (frame) => client.publish(frame.reply ?? "none", frame.payload));
    client.publish("n.1", Uint8Array.of(1));
    await client.flush();
    const lost = statusOf(client, "lost");
    const back = statusOf(client, "connected");
    await first[end]();
    await lost;
    client.publish("n.2", Uint8Array.of(2)); // Lost: delivery is at most once.
    await t.throwsAsync(client.flush(), { instanceOf: TransportLostError });
    const error = await t.throwsAsync(
      client.request("ask", Uint8Array.of(7), { deadlineMs: 60_000 }),
      { instanceOf: RequestFailedError },
    );
    t.regex(error?.message ?? "", /not connected/);
    await using _second = await startBrokerThread({ port, auth });
    await back;
    client.publish("n.3", Uint8Array.of(3));
    const answer = await client.request("ask", Uint8Array.of(8), { deadlineMs: 60_000 });
    t.deepEqual([seen, [...answer.payload], errors], [[1, 3], [8], []]);
    await client.close();
  });
}

test("a broker thread that exits reports why, unless it was closed", async (t) => {
  const clock = new SimulatedClock(); // A thread that a stalled machine closes late is not killed.
  const asked = await startBrokerThread({}, { clock });
  await asked.close();
  await asked.close();
  t.deepEqual(await asked.exited, {});
  const killed = await startBrokerThread();
  await killed.kill();
  t.regex((await killed.exited).error?.message ?? "", /exited with code 1/);
});

test("a broker thread that cannot listen fails with the broker's own error", async (t) => {
  await using broker = await startBroker();
  await t.throwsAsync(startBrokerThread({ port: broker.port }), {
    name: "InputUnusableError",
    message: /Cannot listen on/,
  });
});

test("a missing broker is named in an error after the deadline", async (t) => {
  const gone = await startBroker();
  await gone.close();
  const error = await t.throwsAsync(
    connectNats({ ...options, servers: gone.url, deadlineMs: 300 }),
    { instanceOf: TransportLostError },
  );
  t.regex(
    error?.message ?? "",
    /^Cannot reach the broker at nats:.*within 300 ms.*is it running\? `osiris up` starts one/,
  );
});

test("a broker that starts before the deadline is found", async (t) => {
  const reserved = await startBroker({ auth: "open" });
  const { url, port } = reserved;
  await reserved.close();
  const connecting = connectNats({ ...options, servers: url });
  await sleep(150);
  await using _broker = await startBroker({ auth: "open", port });
  const client = await connecting;
  t.is(client.address, url);
  await client.close();
});

test("a server that accepts connections and sends nothing is skipped after the deadline", async (t) => {
  const mute = createServer((socket) => socket.on("error", () => undefined).unref());
  await new Promise<void>((resolve) => mute.listen(0, "127.0.0.1", resolve));
  mute.unref();
  const bound = mute.address();
  const port = typeof bound === "object" ? bound?.port : 0;
  const servers = `nats://127.0.0.1:${port}`;
  await t.throwsAsync(connectNats({ ...options, servers, deadlineMs: 100 }), {
    instanceOf: TransportLostError,
  });
  mute.close();
});

test("a login that timed out is tried again, a refused one is not", async (t) => {
  const info = { version: "2.10.0", proto: 1, max_payload: 2 ** 20, headers: true };
  const about = `INFO ${JSON.stringify({ server_id: "s", auth_required: true, ...info })}\r\n`;
  let logins = 0;
  const answers = ["-ERR 'Authentication Timeout'\r\n", "PONG\r\n"];
  const server = createServer((socket) => {
    socket.on("error", () => undefined).unref();
    socket.write(about);
    socket.on("data", (bytes) => {
      if (!bytes.includes("CONNECT") && !bytes.includes("PING")) return;
      if (bytes.includes("CONNECT")) logins++;
      const answer = answers[Math.min(logins, answers.length) - 1] ?? "";
      if (answer.startsWith("-ERR")) socket.end(answer);
      else socket.write(answer);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => server.close());
  const { port = 0 } = server.address() as { port?: number };
  const login = { ...options, servers: `nats://127.0.0.1:${port}`, token: "secret" };
  const client = await connectNats(login);
  t.is(logins, 2);
  await client.close();
  answers.splice(0, 2, "-ERR 'Authorization Violation'\r\n");
  const refused = connectNats(login);
  await t.throwsAsync(refused, { message: /it refused the credentials/ });
  t.is(logins, 3);
});

test("invalid addresses are refused before a connection is opened", async (t) => {
  for (const servers of [[], "http://127.0.0.1", "nats://"] as ConnectOptions["servers"][]) {
    await t.throwsAsync(connectNats({ ...options, servers }), { instanceOf: InvalidOptionError });
  }
});

test("a token may be part of the address, and is not shown", async (t) => {
  await using broker = await startBroker({ auth: { token: "s%/t" } });
  const servers = broker.url.replace("//", `//${encodeURIComponent("s%/t")}@`);
  const client = await connectNats({ ...options, servers });
  t.is(client.address, broker.url);
  await client.close();
});

test("the error about an invalid address does not show its secrets", async (t) => {
  const wrong = ["http://u:s3cret@h", "nats://u:s3cret@no host", "u:s3cret@no host", "u:s3cret%@h"];
  for (const servers of wrong) {
    const refused = { instanceOf: InvalidOptionError, message: /\/\/\*\*\*@/ };
    const error = await t.throwsAsync(connectNats({ ...options, servers }), refused, servers);
    t.notRegex(error?.message ?? "", /s3cret/);
  }
});

test("bytes in flight are bounded: frames beyond are dropped and reported", async (t) => {
  await using broker = await startBroker({ auth: "open" });
  const errors: unknown[] = [];
  const client = await connectNats({
    ...options,
    servers: broker.url,
    pendingBytesMax: 100_000,
    onError: (error) => errors.push(error),
  });
  let seen = 0;
  client.subscribe("big", () => seen++);
  await client.flush();
  for (let index = 0; index < 15; index++) client.publish("big", new Uint8Array(10_000));
  t.is(errors.length, 5);
  t.true(errors[0] instanceof TransportFullError);
  await client.flush();
  for (let round = 0; round < 30; round++) {
    client.publish("big", new Uint8Array(10_000));
    await client.flush();
  }
  t.deepEqual([errors.length, seen], [5, 40]);
  await client.close();
});

test("closing a client does not wait for a broker that is gone", async (t) => {
  const broker = await startBroker({ auth: "open" });
  const client = await connectNats({ ...options, servers: broker.url });
  const statuses: string[] = [];
  client.onStatus((status) => statuses.push(status));
  const lost = statusOf(client, "lost");
  await broker.close();
  await lost;
  await client.close();
  t.deepEqual(statuses, ["lost", "closed"]);
});

test("bytes in flight when the connection is lost stop counting", async (t) => {
  await using broker = await startBroker({ auth: "open" });
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const settings = { ...options, servers: broker.url, pendingBytesMax: 1000, onError };
  const client = await connectNats(settings);
  const back = statusOf(client, "connected");
  client.publish("a", new Uint8Array(900));
  broker.cut("tester");
  await back;
  client.publish("a", new Uint8Array(900));
  t.deepEqual(errors, []);
  await client.close();
});

test("a status listener that throws is reported, and the other listeners are called", async (t) => {
  await using broker = await startBroker({ auth: "open" });
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const client = await connectNats({ ...options, servers: broker.url, onError });
  client.onStatus(() => {
    throw new Error("broken listener");
  });
  const back = statusOf(client, "connected");
  broker.cut("tester");
  await back;
  t.is(errors.length, 2);
  await client.close();
});
