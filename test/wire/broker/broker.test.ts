// The embedded broker's protocol, line by line over raw sockets.

import test from "ava";
import { connect } from "nats";
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

test("a client receives INFO first, and PONG after PING", async (t) => {
  await using broker = await startOpen({ payloadBytesMax: 4096 });
  using client = await startRawClient(broker.port);
  const info: unknown = JSON.parse(client.text().slice("INFO ".length));
  t.like(info, { headers: true, max_payload: 4096, proto: 1, auth_required: false });
  client.send(quiet, "PING");
  t.true((await client.until("PONG\r\n")).endsWith("}\r\nPONG\r\n"));
});

test("a verbose client receives +OK after each command", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  client.send("CONNECT {}", "SUB a 1", "PUB a 2", "hi", "UNSUB 1", "PING");
  const text = await client.until("PONG");
  t.true(text.endsWith("}\r\n+OK\r\n+OK\r\n+OK\r\nMSG a 1 2\r\nhi\r\n+OK\r\nPONG\r\n"));
});

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

test("the maximum of UNSUB counts all messages since SUB", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  client.send(
    quiet,
    "SUB a 1",
    "PUB a 1",
    "1",
    "UNSUB 1 2",
    "PUB a 1",
    "2",
    "PUB a 1",
    "3",
    "PING",
  );
  t.is((await client.until("PONG")).match(/MSG/g)?.length, 2);
  client.send("SUB b 2", "PUB b 1", "1", "UNSUB 2 1", "PUB b 1", "2", "SUB b 3", "PUB b 1", "!");
  const text = await client.until("!");
  t.is(text.match(/MSG b 2/g)?.length, 1);
});

test("a request without a subscriber is answered with 503", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  client.send(quiet, "SUB inbox.* 4", "PUB nobody inbox.1 0", "", "PING");
  t.true((await client.until("PONG")).includes("HMSG inbox.1 4 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"));
});

test("a client with `echo: false` does not receive its own messages", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  client.send('CONNECT {"verbose":false,"echo":false}', "SUB a 1", "PUB a 1", "x", "PING");
  t.false((await client.until("PONG")).includes("MSG"));
});

test("the members of a queue group receive messages in turn", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  client.send(quiet, "SUB job workers 1", "SUB job workers 2", "SUB * workers 3");
  client.send(...Array.from({ length: 6 }, () => ["PUB job 0", ""]).flat(), "PING");
  const order = [...(await client.until("PONG")).matchAll(/MSG job (\d)/g)].map((hit) => hit[1]);
  t.deepEqual(order, ["1", "2", "3", "1", "2", "3"]);
});

for (const [sent, reason] of [
  ["GET / HTTP/1.1", "Unknown Protocol Operation"],
  ["PUB a", "Parser Error"],
  ["PUB a -1", "Parser Error"],
  ["HPUB a 9 4", "Parser Error"],
  ["UNSUB 1 2 3", "Parser Error"],
  ["SUB a b c d", "Parser Error"],
  ["PUB a 2\r\nabcd", "Unknown Protocol Operation"],
  ["CONNECT {nonsense", "Parser Error"],
  ['CONNECT {"verbose":"yes"}', "Parser Error"],
  ["PUB a 1048577", "Maximum Payload Violation"],
  [`SUB ${"a".repeat(5000)} 1`, "maximum control line exceeded"],
  ["a".repeat(5000), "maximum control line exceeded"],
] as const) {
  test(`a client that sends "${sent.slice(0, 30)}" gets "${reason}" and is disconnected`, async (t) => {
    await using broker = await startOpen();
    using client = await startRawClient(broker.port);
    client.send('CONNECT {"headers":true}', sent);
    await client.until(`-ERR '${reason}'\r\n`);
    await client.closed;
    using another = await startRawClient(broker.port);
    another.send(quiet, "PING");
    t.true((await another.until("PONG")).includes("PONG"));
  });
}

test("an invalid subject is refused, and the client stays connected", async (t) => {
  await using broker = await startOpen();
  using client = await startRawClient(broker.port);
  const pedantic = quiet.replace('"pedantic":false', '"pedantic":true');
  client.send(pedantic, "SUB a..b 1", "SUB >.a 1", "PUB a.* 1", "x", "PUB b.> 1", "x", "PING");
  const text = await client.until("PONG");
  t.is(text.match(/-ERR 'Invalid Subject'/g)?.length, 2);
  t.is(text.match(/-ERR 'Invalid Publish Subject'/g)?.length, 2);
});

test("a subject in UTF-8 is delivered unchanged", async (t) => {
  await using broker = await startBroker();
  const { url, auth } = broker;
  const client = await connect({ servers: url, ...(auth === "open" ? {} : auth) });
  const subjects: string[] = [];
  client.subscribe("größe.*", {
    callback: (_, message) => {
      subjects.push(message.subject);
    },
  });
  client.publish("größe.à", "x");
  await client.flush();
  t.deepEqual(subjects, ["größe.à"]);
  await client.close();
});

test("without the token only CONNECT is accepted, and only until a deadline", async (t) => {
  const clock = new SimulatedClock();
  await using broker = await startBroker({ clock, auth: { token: "secret" } });
  using hasty = await startRawClient(broker.port);
  hasty.send("SUB > 1");
  await hasty.until("-ERR 'Authorization Violation'");
  using wrong = await startRawClient(broker.port);
  wrong.send('CONNECT {"auth_token":"Secret"}');
  await wrong.until("-ERR 'Authorization Violation'");
  using silent = await startRawClient(broker.port);
  using known = await startRawClient(broker.port);
  known.send('CONNECT {"auth_token":"secret","verbose":false}', "PING");
  await known.until("PONG");
  clock.advance(2000);
  await silent.until("-ERR 'Authentication Timeout'");
  known.send("SUB a 1", "PUB a 1", "x");
  t.true((await known.until("MSG a 1 1")).length > 0);
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

test("a client that does not read is disconnected, and the others are served", async (t) => {
  // Simulated time: a real broker destroys the connection after half a second, read or not.
  const clock = new SimulatedClock();
  await using broker = await startOpen({ clock, pendingBytesMax: 1024 * 1024 });
  using slow = await startRawClient(broker.port);
  using fast = await startRawClient(broker.port);
  slow.send(quiet, "SUB flood 1", "PING");
  fast.send(quiet, "SUB done 1", "PING");
  await Promise.all([slow.until("PONG"), fast.until("PONG")]);
  slow.socket.pause();
  const payload = "x".repeat(100_000);
  let floods = 0;
  while (broker.clients().length === 2 && floods++ < 1000) {
    fast.send("PUB flood 100000", payload);
    await new Promise(setImmediate);
  }
  t.is(broker.clients().length, 1);
  slow.socket.resume();
  t.true((await slow.until("-ERR 'Slow Consumer'")).length > 0);
  fast.send("PUB done 2", "ok");
  t.true((await fast.until("MSG done 1 2")).length > 0);
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

test("a connection beyond the maximum gets an error", async (t) => {
  await using broker = await startOpen({ connectionsMax: 1 });
  using first = await startRawClient(broker.port);
  using second = await startRawClient(broker.port);
  await second.until("-ERR 'maximum connections exceeded'");
  first.send(quiet, "PING");
  t.true((await first.until("PONG")).length > 0);
});

test("unauthenticated connections make room for clients with the token", async (t) => {
  await using broker = await startBroker({ auth: { token: "t" }, connectionsMax: 2 });
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
