// Listening: the callback actor by which a machine hears its mailbox. A message becomes an event of
// the same type, with the body as it came. `defineActor` starts it for every supervised actor.

import { fromCallback } from "xstate";
import {
  type ActorMessage,
  type Mailbox,
  type MessageType,
  type Network,
  subscribe,
} from "./mailbox.ts";

/** The event of a message: `{ type: "device.run", body, from, run, generation }`. */
export type MessageEvent<Type extends MessageType> = Extract<ActorMessage, { type: Type }>;

/** Listens to the mailbox of one actor. */
export const listening = fromCallback<{ type: string }, { mailbox: Mailbox }>(
  ({ input, sendBack }) => {
    const subscription = input.mailbox.listen((message) => sendBack(message), "isActor");
    return () => subscription.unsubscribe();
  },
);

/** Listens to all messages to one host, of any run and generation. */
export const listeningAsHost = fromCallback<{ type: string }, { network: Network; host: number }>(
  ({ input, sendBack }) => {
    const address = { role: "host" as const, index: input.host };
    const subscription = subscribe(input.network, address, (message) => sendBack(message));
    return () => subscription.unsubscribe();
  },
);
