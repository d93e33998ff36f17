// Orders a fault: tells an actor to throw. Obeyed only where the cluster allows faults.

import { type Network, openMailbox, type Role, type RunScope } from "./mailbox.ts";

/**
 * Makes an actor throw. Nothing happens where the cluster does not allow faults, or the actor is
 * not there. Resolves when the broker has the order.
 */
export async function orderFault(
  network: Network,
  scope: RunScope,
  to: { readonly role: Role; readonly index: number },
  reason: string,
): Promise<void> {
  openMailbox(network, scope, { role: "cluster", index: 1 }).tell(to, "chaos.throw", { reason });
  await network.transport.flush();
}
