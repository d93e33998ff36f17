// Mailboxes: which messages an actor accepts, and which it counts and drops.

import test from "ava";
import { type Network, openMailbox, type Role, request } from "../../../actors/runtime/mailbox.ts";
import { messages, takers } from "../../../src/wire/messages/messages.ts";
import { roles, subjectOf } from "../../../src/wire/messages/subjects.ts";
import { scope, startSimulatedNetwork } from "../../helpers/clusters/actors.ts";

const body = { command: 1, isOver: false };

/**
 * Starts an actor of `role`; `heard` lists the messages that it accepts, `refused` the errors of
 * the others.
 */
function startActorOf(role: Role, overrides: Partial<Network> = {}) {
  const refused: string[] = [];
  const place = startSimulatedNetwork({
    faultsAllowed: false,
    ...overrides,
    onCorrupt: (error) => refused.push(error.message),
  });
  const { network, clock } = place;
  const mailbox = openMailbox(network, scope, { role, index: 0 });
  const heard: string[] = [];
  mailbox.listen(({ type }) => heard.push(type));
  return {
    ...place,
    heard,
    refused,
    mailbox,
    /** An envelope on a subject; both belong to the actor's generation by default. */
    send(
      type: keyof typeof messages.schemas,
      about: { action?: string; generation?: number } = {},
    ) {
      const { action = type.replace(".", "-"), generation = scope.generation } = about;
      const subject = subjectOf({ cluster: "c1", ...scope, role, index: 0, action });
      const envelope = { type, run: scope.run, generation, from: "x:0", body } as never;
      network.transport.publish(subject, messages.encode(envelope));
      clock.advance(0);
    },
  };
}

test("an actor accepts a message only if its subject matches and it is for the actor's role", (t) => {
  const inspector = startActorOf("inspector");
  inspector.send("host.inspect");
  inspector.send("host.inspect", { generation: scope.generation + 1 });
  inspector.send("host.inspect", { action: "host-inspected" });
  inspector.send("host.release");
  t.deepEqual(inspector.heard, ["host.inspect"]);
  // The simulated network also has an inspector, which refuses the same frames.
  const refused = [...new Set(inspector.refused)];
  t.is(refused.length, 3);
  t.regex(refused[2] ?? "", /`host\.release` is a message to the role host/);
});

test("an injected fault is refused and counted if faults are not allowed", (t) => {
  const reader = startActorOf("reader");
  reader.send("chaos.throw");
  t.deepEqual(reader.heard, []);
  t.is(reader.refused.length, 1);
});

test("every message type has a receiver, and every receiver is a known role", (t) => {
  t.deepEqual(Object.keys(takers).sort(), Object.keys(messages.schemas).sort());
  const known = new Set<string>([...roles, "any"]);
  t.true(Object.values(takers).every((taker) => known.has(taker)));
});

test("an answer from an actor that was not asked is ignored", async (t) => {
  const { network, mailbox, say, pass } = startActorOf("coordinator");
  let isAnswered = false;
  void request({
    ...{ network, mailbox, type: "device.evaluate" },
    body: { ...body, part: "evaluation" },
    to: [0, 1].map((index) => ({ role: "device", index })),
    answer: (message) =>
      message.type === "device.evaluated" ? { from: message.body.device, answer: true } : undefined,
    deadlineMs: Number.POSITIVE_INFINITY,
  }).then(() => {
    isAnswered = true;
  });
  const answer = async (device: number) => {
    say(mailbox.self, "device.evaluated", { command: 1, device, metrics: null });
    await pass(0);
  };
  await answer(0);
  await answer(7);
  t.false(isAnswered);
  await answer(1);
  t.true(isAnswered);
});
