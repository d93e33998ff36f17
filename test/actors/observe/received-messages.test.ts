// The newest messages of an actor, as inspection shows them: bounded, short, and without secrets.

import test from "ava";
import { receivedBy } from "../../../actors/observe/received-messages.ts";
import { LastMessages } from "../../../actors/runtime/last-messages.ts";
import { openMailbox } from "../../../actors/runtime/mailbox.ts";
import { scope, startSimulatedNetwork } from "../../helpers/clusters/actors.ts";

const textOf = (body: unknown, bytes: number, secrets: readonly string[] = []) => {
  const mailbox = openMailbox(startSimulatedNetwork().network, scope, { role: "device", index: 0 });
  const last = new LastMessages();
  last.note({ type: "device.run", from: "coordinator:0", body }, bytes, 100);
  return receivedBy({ ...mailbox, received: { ...mailbox.received, last } }, 350, secrets)[0];
};

test("an actor keeps its newest eight messages, and only the size of large ones", (t) => {
  const last = new LastMessages();
  for (let at = 0; at < 10_000; at++) {
    last.note({ type: "device.run", from: "x:0", body: { command: at } }, at % 2 ? 1000 : 50, at);
  }
  t.deepEqual(
    last.all().map(({ atMs }) => atMs),
    [9999, 9998, 9997, 9996, 9995, 9994, 9993, 9992],
  );
  t.deepEqual(last.all()[1]?.body, { command: 9998 });
  for (const { body, bytes } of last.all()) t.is(body === undefined, bytes === 1000);
});

test("an inspected message has type, sender, age and size, and its contents if they are small", (t) => {
  t.deepEqual(textOf({ command: 3, until: 40 }, 30), {
    type: "device.run",
    from: "coordinator:0",
    agoMs: 250,
    bytes: 30,
    text: '{"command":3,"until":40}',
  });
});

test("an inspected message shows no tensor, no long list and no secret", (t) => {
  const weights = new Float32Array([1, 2, 3]);
  t.is(
    textOf({ weights, ids: [1, 2, 3, 4, 5] }, 90)?.text,
    '{"weights":"(12 bytes)","ids":"(5 items)"}',
  );
  t.is(textOf({ weights: new Float32Array(1000) }, 4100)?.text, undefined);
  const body = { token: "abcd", nats: "nats://me:word@host:1", note: "say sesame-open now" };
  const { text = "" } = textOf(body, 120, ["sesame-open"]) ?? {};
  for (const secret of ["abcd", "word", "sesame-open"]) t.false(text.includes(secret), text);
  t.true((textOf({ note: "x".repeat(240) }, 250)?.text ?? "").length <= 162);
});

test("a received message is kept once, even while a request of the actor listens as well", (t) => {
  const { network, clock } = startSimulatedNetwork();
  const mailbox = openMailbox(network, scope, { role: "device", index: 0 });
  mailbox.listen(() => {}, "isActor");
  mailbox.listen(() => {});
  const sender = openMailbox(network, scope, { role: "coordinator", index: 0 });
  sender.send(mailbox.self, "device.pause", { command: 1, afterStep: 4 });
  clock.advance(0);
  t.deepEqual(
    mailbox.received.last.all().map(({ type, from }) => [type, from]),
    [["device.pause", "coordinator:0"]],
  );
});
