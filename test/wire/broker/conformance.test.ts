// The embedded broker with the official client, and with random input.

import test from "ava";
import { connect, headers } from "nats";
import { type Broker, startBroker } from "../../../src/wire/broker/broker.ts";
import { startRawClient } from "../../helpers/nats/raw-client.ts";
import { fc } from "../../helpers/properties.ts";
import { until } from "../../helpers/until.ts";

const quiet = 'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}';

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
    maxWait: 60_000,
  });
  for await (const answer of many) {
    names.push(answer.string());
    t.deepEqual(answer.headers?.values("x"), ["1", "2"]);
  }
  t.deepEqual(names, ["one", "two", "three"]);
  const single = await asker.request("who", "", { noMux: true, timeout: 60_000 });
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
  await until("the end of the strangers' connections", () => broker.clients().length === 1);
});
