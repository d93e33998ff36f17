// Network namespaces of Linux: separate machines as far as the network is concerned, each with one
// cable to this machine.

import { execFileSync } from "node:child_process";
import type { ExecutionContext } from "ava";

export interface NetworkNamespace {
  /** This machine's address at its end of the cable. */
  readonly gateway: string;
  /** The command prefix that runs another command inside. */
  readonly inside: readonly string[];
  /** Disconnects the cable; `mend` reconnects it. */
  cut(): void;
  mend(): void;
}

/** Whether this process may create namespaces. */
export function hasNamespaces(): boolean {
  const name = `osiris-${process.pid}`;
  try {
    ip("netns", "add", name);
    ip("netns", "del", name);
    return true;
  } catch {
    return false;
  }
}

/** Creates namespace `number` (0..63) of this process; it is deleted when the test ends. */
export function startNamespace(t: ExecutionContext, number: number): NetworkNamespace {
  const name = `osiris-${process.pid}-${number}`;
  const near = `os${process.pid}n${number}`;
  const far = `os${process.pid}f${number}`;
  // Four addresses per cable, in a network that hosts of tests seldom use.
  const address = (last: number) => `10.213.${process.pid % 256}.${4 * number + last}`;
  ip("netns", "add", name);
  t.teardown(() => ip("netns", "del", name)); // This deletes the cable, too.
  ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name);
  ip("addr", "add", `${address(1)}/30`, "dev", near);
  ip("link", "set", near, "up");
  ip("-n", name, "addr", "add", `${address(2)}/30`, "dev", far);
  ip("-n", name, "link", "set", far, "up");
  ip("-n", name, "link", "set", "lo", "up");
  return {
    gateway: address(1),
    inside: ["ip", "netns", "exec", name],
    cut: () => ip("link", "set", near, "down"),
    mend: () => ip("link", "set", near, "up"),
  };
}

function ip(...args: readonly string[]): void {
  execFileSync("ip", args, { stdio: "pipe" });
}
