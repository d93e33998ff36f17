// Actors: their mailbox, their children, and the order in which the children end.

import test from "ava";
import { fromCallback, setup } from "xstate";
import { defineActor } from "../../../actors/runtime/define-actor.ts";
import {
  type Mailbox,
  type MessageEvent,
  type Network,
  openMailbox,
} from "../../../actors/runtime/mailbox.ts";
import { scope, startActor, startSimulatedNetwork } from "../../helpers/clusters/actors.ts";

const self = { role: "device", index: 0 } as const;

/**
 * An actor with two children; its state shows what it received, and `ended` lists the children that
 * ended.
 */
function startParent() {
  const place = startSimulatedNetwork();
  const ended: string[] = [];
  const child = fromCallback<{ type: string }, { name: string }>(({ input: { name } }) => {
    return () => ended.push(name);
  });
  const machine = setup({
    types: {} as {
      context: { readonly mailbox: Mailbox };
      input: { readonly network: Network };
      events: MessageEvent<"device.pause">;
    },
    actors: { child },
  }).createMachine({
    context: ({ input }) => ({ mailbox: openMailbox(input.network, scope, self) }),
    invoke: [
      { src: "child", input: { name: "first" } },
      { src: "child", input: { name: "second" } },
    ],
    initial: "going",
    states: { going: { on: { "device.pause": "paused" } }, paused: {} },
  });
  const { actor, ends } = startActor(place, defineActor(machine), { network: place.network });
  return { ...place, actor, ends, ended };
}

test("an actor receives messages from its mailbox", (t) => {
  const { actor, say } = startParent();
  say(self, "device.pause", { command: 1, afterStep: 0 });
  t.is(actor.getSnapshot().value, "paused");
});

test("`chaos.throw` fails an actor in any state, after its children end in reverse order", (t) => {
  const { ends, ended, say } = startParent();
  say(self, "device.pause", { command: 1, afterStep: 0 });
  say(self, "chaos.throw", { reason: "thrown here" });
  t.like(ends.error, { name: "InjectedError", message: "thrown here" });
  t.deepEqual(ended, ["second", "first"]);
});

test("a stopped actor ends its children in reverse order, and receives nothing more", (t) => {
  const { actor, ends, ended, say } = startParent();
  actor.stop();
  t.deepEqual(ended, ["second", "first"]);
  say(self, "chaos.throw", { reason: "too late" });
  t.is(ends.error, undefined);
});
