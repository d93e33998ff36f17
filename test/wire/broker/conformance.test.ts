// The embedded broker compared with a real nats-server, with the official client, and with random
// input.

import { setTimeout as sleep } from "node:timers/promises";
import test from "ava";
import { connect, headers } from "nats";
import { type Broker, startBroker } from "../../../src/wire/broker/broker.ts";
import { startNatsServer } from "../../helpers/nats/nats.ts";
import { startRawClient } from "../../helpers/nats/raw-client.ts";
import { natsServer, testIf } from "../../helpers/needs.ts";
import { fc } from "../../helpers/properties.ts";

const quiet = 'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}';

// The lines that a client sends on one connection, by title. The server answers the last line with
// PONG or closes the connection, so that a test knows the end of the answers.
const conversations: Readonly<Record<string, readonly string[]>> = {
  "plain frames": [quiet, "SUB a 1", "PUB a 2", "hi", "PUB a r.1 0", "", "PING"],
  "a verbose client": ["CONNECT {}", "SUB a 1", "PUB a 2", "hi", "UNSUB 1", "PUB a 1", "x", "PING"],
  "lower case and tabs": [quiet, "sub\ta  q\t7", "pub  a\tr 3 ", "abc", "ping"],
  "UNSUB with a maximum": [quiet, "SUB a 1", "UNSUB 1 2", ...pubs("a", 4), "PING"],
  "UNSUB after the maximum": [
    quiet,
    "SUB a 1",
    ...pubs("a", 2),
    "UNSUB 1 1",
    ...pubs("a", 1),
    "PING",
  ],
  "UNSUB of what is not there": [quiet, "UNSUB 9", "UNSUB 9 5", "PING"],
  "one sid twice": [
    quiet,
    "SUB a 1",
    "SUB a 1",
    ...pubs("a", 1),
    "UNSUB 1",
    ...pubs("a", 1),
    "PING",
  ],
  "no responders": [quiet, "SUB in.* 1", "PUB none in.7 1", "x", "PING"],
  "no responders, unasked": ['CONNECT {"verbose":false}', "SUB i 1", "PUB none i 1", "x", "PING"],
  wildcards: [quiet, "SUB a.* 1", "SUB a.*.c 2", "PUB a.b 1", "x", "PUB a.b.c 1", "y", "PING"],
  "no echo": ['CONNECT {"verbose":false,"echo":false}', "SUB a 1", ...pubs("a", 2), "PING"],
  headers: [quiet, "SUB h 1", "HPUB h r 18 20", "NATS/1.0\r\nA: b\r\n\r\nhi", "PING"],
  "a bad subject": [quiet, "SUB a..b 1", "PING"],
  "a queue group of one": [quiet, "SUB a q 1", ...pubs("a", 3), "PING"],
  "an unknown verb": [quiet, "PING", "SING a song"],
  "a payload without its end": [quiet, "PING", "PUB a 1", "xyz"],
  "a payload too large": [quiet, "PING", "PUB a 9999999"],
};

function pubs(subject: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => [`PUB ${subject} 1`, `${index}`]).flat();
}

/** All answers of a server, without its INFO. */
async function answersOf(port: number, lines: readonly string[]): Promise<string> {
  using client = await startRawClient(port);
  client.send(...lines);
  if (lines[lines.length - 1]?.toLowerCase() === "ping") await client.until("PONG\r\n");
  else await client.closed;
  return client.text().replace(/^INFO .*\r\n/, "");
}

testIf(natsServer).serial("a nats-server answers the same in every conversation", async (t) => {
  await using real = await startNatsServer();
  await using ours = await startBroker({ auth: "open" });
  for (const [title, lines] of Object.entries(conversations)) {
    const expected = await answersOf(Number(new URL(real.url).port), lines);
    t.is(await answersOf(ours.port, lines), expected, title);
  }
});

function startClient(broker: Broker, options: { readonly noEcho?: boolean } = {}) {
  const { auth, url } = broker;
  return connect({ servers: url, ...(auth === "open" ? {} : auth), ...options });
}

test("the official client: several replies, and single replies without its shared inbox", async (t) => {
  await using broker = await startBroker();
  const [asker, answerer] = await Promise.all([startClient(broker), startClient(broker)]);
  for (const name of ["one", "two", "three"]) {
    answerer.subscribe("who", {
      callback: (_, message) => {
        const answer = headers();
        answer.append("x", "1");
        answer.append("x", "2");
        message.respond(name, { headers: answer });
      },
    });
  }
  await answerer.flush();
  const names: string[] = [];
  const many = await asker.requestMany("who", "", {
    strategy: "count",
    maxMessages: 3,
    maxWait: 5000,
  });
  for await (const answer of many) {
    names.push(answer.string());
    t.deepEqual(answer.headers?.values("x"), ["1", "2"]);
  }
  t.deepEqual(names, ["one", "two", "three"]);
  const single = await asker.request("who", "", { noMux: true, timeout: 5000 });
  t.is(single.string(), "one");
  await t.throwsAsync(asker.request("nobody", "", { noMux: true, timeout: 60_000 }));
  await Promise.all([asker.drain(), answerer.drain()]);
});

test("the official client: a message maximum, a lossless drain, and no echo", async (t) => {
  await using broker = await startBroker();
  const [sender, receiver] = await Promise.all([
    startClient(broker, { noEcho: true }),
    startClient(broker),
  ]);
  const seen = { echo: 0, limited: 0, drained: 0 };
  sender.subscribe("a", { callback: () => void seen.echo++ });
  receiver.subscribe("a", { max: 3, callback: () => void seen.limited++ });
  const draining = receiver.subscribe("a", { callback: () => void seen.drained++ });
  await Promise.all([sender.flush(), receiver.flush()]);
  for (let index = 0; index < 100; index++) sender.publish("a", `${index}`);
  await sender.flush();
  await draining.drain();
  sender.publish("a", "after the drain");
  await sender.flush();
  await receiver.flush();
  t.deepEqual(seen, { echo: 0, limited: 3, drained: 100 });
  await Promise.all([sender.drain(), receiver.drain()]);
});

test("whatever bytes one client sends, the broker serves the others", async (t) => {
  await using broker = await startBroker({ auth: "open" });
  using witness = await startRawClient(broker.port);
  const words = fc.constantFrom(
    ...["CONNECT {}", "PUB a 2", "HPUB a 3 2", "SUB > 1", "UNSUB 1 1", "PING", "PONG", "{}", "-1"],
  );
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    words.map((word) => Buffer.from(`${word}\r\n`)),
  );
  const property = fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
    using stranger = await startRawClient(broker.port);
    for (const bytes of pieces) stranger.socket.write(bytes);
    stranger.socket.end();
    await stranger.closed;
  });
  await t.notThrowsAsync(() => fc.assert(property, { seed: 7, numRuns: 100 }));
  witness.send(quiet, "SUB z 1", "PUB z 2", "ok");
  t.true((await witness.until("MSG z 1 2\r\nok")).length > 0);
  for (let tries = 0; broker.clients().length > 1 && tries < 200; tries++) await sleep(10);
  t.is(broker.clients().length, 1);
});
