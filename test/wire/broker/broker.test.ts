// What the embedded broker has beyond the documented protocol, which protocol.test.ts checks:
// limits, logins, turns of queue groups, faults of the test harness and the list of its clients.

import test from "ava";
import {
  InputUnusableError,
  InvalidOptionError,
  TransportLostError,
} from "../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { type BrokerOptions, startBroker } from "../../../src/wire/broker/broker.ts";
import { connectNats } from "../../../src/wire/transports/nats-transport.ts";
import { startRawClient } from "../../helpers/nats/raw-client.ts";

const quiet = 'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}';

function startOpen(options: BrokerOptions = {}) {
  return startBroker({ auth: "open", ...options });
}

test("a frame that is sent byte by byte is delivered whole", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  client.send(quiet, "SUB a.* 9", "PING");
  await client.until("PONG");
  client.socket.setNoDelay(true);
  for (const byte of Buffer.from("pub a.b back 5\r\nh\r\nlo\r\nPING\r\n")) {
    client.socket.write(Buffer.of(byte));
    await new Promise(setImmediate);
  }
  t.true((await client.until("lo\r\nPONG")).includes("MSG a.b 9 back 5\r\nh\r\nlo\r\nPONG\r\n"));
});

test("headers are delivered to clients that support them, and stripped for others", async (t) => {
  await using broker = await startOpen();
  using modern = await startRawClient(broker.port);
  using plain = await startRawClient(broker.port);
  modern.send(quiet, "SUB h 1", "PING");
  plain.send('CONNECT {"verbose":false}', "SUB h 2", "PING");
  await Promise.all([modern.until("PONG"), plain.until("PONG")]);
  modern.send("HPUB h 18 20", "NATS/1.0\r\nA: b\r\n\r\nhi");
  t.true(
    (await modern.until("hi\r\n")).endsWith("HMSG h 1 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"),
  );
  t.true((await plain.until("hi\r\n")).endsWith("MSG h 2 2\r\nhi\r\n"));
});

test("the members of a queue group receive messages in turn", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  client.send(quiet, "SUB job workers 1", "SUB job workers 2", "SUB * workers 3");
  client.send(...Array.from({ length: 6 }, () => ["PUB job 0", ""]).flat(), "PING");
  const order = [...(await client.until("PONG")).matchAll(/MSG job (\d)/g)].map((hit) => hit[1]);
  t.deepEqual(order, ["1", "2", "3", "1", "2", "3"]);
});

test("a user needs the right password", async (t) => {
  await using broker = await startBroker({ auth: { user: "ada", pass: "l o v e" } });
  const login = { servers: broker.url, name: "a", deadlineMs: 60_000 };
  const client = await connectNats({ ...login, user: "ada", pass: "l o v e" });
  await client.flush();
  await client.close();
  const inUrl = broker.url.replace("//", "//ada:l%20o%20v%20e@");
  const other = await connectNats({ ...login, servers: inUrl });
  t.is(other.address, broker.url);
  await other.close();
  const refused = { instanceOf: TransportLostError, message: /refused the credentials/ };
  await t.throwsAsync(connectNats({ ...login, user: "ada", pass: "hate" }), refused);
  await t.throwsAsync(connectNats({ ...login, token: "ada" }), refused);
  await t.throwsAsync(connectNats(login), refused);
});

test("a client that answers no PING is disconnected; one that answers is not", async (t) => {
  const clock = new SimulatedClock();
  await using broker = await startOpen({ clock, pingIntervalMs: 1000 });
  using dead = await startRawClient(broker.port);
  using alive = await startRawClient(broker.port);
  alive.send(quiet, "SUB round.* 1");
  for (let round = 1; round <= 6; round++) {
    clock.advance(1000);
    alive.send("PONG", `PUB round.${round} 0`, "");
    await alive.until(`MSG round.${round} `);
  }
  await dead.until("-ERR 'Stale Connection'");
  t.is(broker.clients().length, 1);
});

test("unauthenticated connections make room for clients with the token", async (t) => {
  // Simulated time: on a stalled machine, no connection misses the deadline of its login.
  const clock = new SimulatedClock();
  await using broker = await startBroker({ auth: { token: "t" }, connectionsMax: 2, clock });
  const login = 'CONNECT {"verbose":false,"auth_token":"t"}';
  using first = await startRawClient(broker.port);
  using second = await startRawClient(broker.port);
  using third = await startRawClient(broker.port);
  await first.closed;
  third.send(login, "PING");
  await third.until("PONG");
  using fourth = await startRawClient(broker.port);
  await second.closed;
  fourth.send(login, "PING");
  await fourth.until("PONG");
  using late = await startRawClient(broker.port);
  t.regex(await late.until("-ERR"), /maximum connections exceeded/);
  third.send("PING");
  t.is(broker.clients().length, 2);
});

test("a client with one subscription too many is disconnected", async (t) => {
  await using broker = await startOpen({ subscriptionsMax: 2 });
  using client = await startRawClient(broker.port);
  client.send(quiet, "SUB a 1", "SUB a 1", "SUB b 2", "SUB c 3");
  t.true((await client.until("-ERR 'maximum subscriptions exceeded'")).length > 0);
});

test("`intercept` of the test harness drops, repeats and delays frames", async (t) => {
  const clock = new SimulatedClock();
  await using broker = await startOpen({
    clock,
    intercept: (from, subject, to) => {
      t.deepEqual([from, to], ["sender", "receiver"]);
      if (subject === "drop") return "drop";
      if (subject === "twice") return "duplicate";
      return subject === "late" ? { delayMs: 50 } : "deliver";
    },
  });
  const options = { servers: broker.url, deadlineMs: 60_000 };
  const [sender, receiver] = await Promise.all([
    connectNats({ ...options, name: "sender" }),
    connectNats({ ...options, name: "receiver" }),
  ]);
  const seen: string[] = [];
  receiver.subscribe("*", (frame) => seen.push(frame.subject));
  await receiver.flush();
  for (const subject of ["late", "drop", "twice", "plain"]) {
    sender.publish(subject, new Uint8Array(3));
  }
  await sender.flush();
  await receiver.flush();
  t.deepEqual(seen, ["twice", "twice", "plain"]);
  clock.advance(50);
  await receiver.flush();
  t.deepEqual(seen, ["twice", "twice", "plain", "late"]);
  await Promise.all([sender.close(), receiver.close()]);
});

test("a client that the harness disconnects reconnects with its subscriptions", async (t) => {
  await using broker = await startOpen();
  const options = { servers: broker.url, deadlineMs: 60_000 };
  const client = await connectNats({ ...options, name: "victim" });
  const seen: string[] = [];
  client.subscribe("a", (frame) => seen.push(frame.subject));
  await client.flush();
  const statuses: string[] = [];
  const isBack = new Promise<void>((resolve) => {
    client.onStatus((status) => {
      statuses.push(status);
      if (status === "connected") resolve();
    });
  });
  t.is(broker.cut("victim"), 1);
  t.is(broker.cut("nobody"), 0);
  await isBack;
  client.publish("a", new Uint8Array(1));
  await client.flush();
  t.deepEqual([statuses, seen], [["lost", "connected"], ["a"]]);
  await client.close();
});

test("a broker listens only on a loopback address and a free port", async (t) => {
  await t.throwsAsync(startBroker({ host: "0.0.0.0" }), { instanceOf: InvalidOptionError });
  await using broker = await startBroker();
  const error = await t.throwsAsync(startBroker({ port: broker.port }), {
    instanceOf: InputUnusableError,
  });
  t.regex(error?.message ?? "", /Cannot listen on nats:\/\/127\.0\.0\.1:\d+.*name another port/);
});

test("a closed broker leaves no socket and no timer", async (t) => {
  const clock = new SimulatedClock();
  const broker = await startBroker({ clock, auth: { token: "x" } });
  using client = await startRawClient(broker.port);
  await Promise.all([broker.close(), client.closed]);
  await broker.close();
  t.false(clock.runNext());
  t.deepEqual(broker.clients(), []);
});

test("a broker lists its clients, with their message counts and subscriptions", async (t) => {
  await using broker = await startOpen();
  using one = await startRawClient(broker.port);
  using other = await startRawClient(broker.port);
  one.send(quiet.replace("{", '{"name":"one",'), "SUB a.* q 7", "PING");
  await one.until("PONG");
  other.send(quiet, "PUB a.b 5", "hello", "HPUB a.c 12 14", "NATS/1.0\r\n\r\nhi", "PING");
  await Promise.all([one.until("hi\r\n"), other.until("PONG")]);
  const [first, second] = broker.connections();
  t.like(first, { name: "one", ip: "127.0.0.1", port: one.socket.localPort, pendingBytes: 0 });
  t.like(first, { framesIn: 0, bytesIn: 0, framesOut: 2, bytesOut: 19 });
  t.deepEqual(first?.subscriptions, [{ subject: "a.*", queue: "q", sid: "7", delivered: 2 }]);
  t.like(second, { name: "", framesIn: 2, bytesIn: 19, framesOut: 0, subscriptions: [] });
  t.true((second?.id ?? 0) > (first?.id ?? 0));
});
