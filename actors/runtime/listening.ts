// Listening: the callback actor that delivers mailbox messages to a machine. A message becomes an
// event of the same type, with an unchanged body. `defineActor` starts it for every supervised
// actor.

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

/** Delivers the messages of one actor's mailbox. */
export const listening = fromCallback<{ type: string }, { mailbox: Mailbox }>(
  ({ input, sendBack }) => {
    const subscription = input.mailbox.listen((message) => sendBack(message), "isActor");
    return () => subscription.unsubscribe();
  },
);

/** Delivers all messages to one host, of any run and generation. */
export const listeningAsHost = fromCallback<{ type: string }, { network: Network; host: number }>(
  ({ input, sendBack }) => {
    const address = { role: "host" as const, index: input.host };
    const subscription = subscribe(input.network, address, (message) => sendBack(message));
    return () => subscription.unsubscribe();
  },
);
