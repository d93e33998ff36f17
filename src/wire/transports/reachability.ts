// Finds the NATS servers that can be reached. A NATS server speaks first, so a silent one is down.

import { connect } from "node:net";
import type { Clock } from "../../ports/clock.ts";
import { endpointOf } from "./server-address.ts";

/**
 * Orders the servers: reachable servers first, each part in the given order. Rejects with the last
 * reason if none is reachable.
 */
export async function byReachability(
  servers: readonly string[],
  waitMs: number,
  clock: Clock,
): Promise<string[]> {
  const faults = await Promise.all(servers.map((server) => faultOf(server, waitMs, clock)));
  const present = servers.filter((_, index) => faults[index] === undefined);
  if (present.length === 0) throw faults[faults.length - 1];
  return [...present, ...servers.filter((_, index) => faults[index] !== undefined)];
}

/** Why a server cannot be reached; undefined once it has sent anything. */
function faultOf(server: string, waitMs: number, clock: Clock): Promise<Error | undefined> {
  return new Promise((resolve) => {
    const socket = connect(endpointOf(server));
    const finish = (fault: Error | undefined) => {
      cancel();
      socket.destroy();
      resolve(fault);
    };
    const cancel = clock.after(waitMs, () => finish(new Error("it says nothing")));
    socket.once("data", () => finish(undefined));
    socket.once("error", finish);
    socket.once("close", () => finish(new Error("it hung up")));
  });
}
