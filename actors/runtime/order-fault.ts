// Orders a fault: makes an actor throw. Ignored where the cluster does not allow faults.

import { type Network, openMailbox, type Role, type RunScope } from "./mailbox.ts";

/**
 * Makes an actor throw. Nothing happens where the cluster does not allow faults, or where there is
 * no such actor. Resolves when the broker has received the order.
 */
export async function orderFault(
  network: Network,
  scope: RunScope,
  to: { readonly role: Role; readonly index: number },
  reason: string,
): Promise<void> {
  openMailbox(network, scope, { role: "cluster", index: 1 }).send(to, "chaos.throw", { reason });
  await network.transport.flush();
}
