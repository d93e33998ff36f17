// Network namespaces of Linux: machines of their own as far as the network goes, each with one
// cable to this one.

import { execFileSync } from "node:child_process";
import type { ExecutionContext } from "ava";

export interface NetworkNamespace {
  /** This machine's address at its end of the cable. */
  readonly gateway: string;
  /** The command that runs another one inside. */
  readonly inside: readonly string[];
  /** Pulls the cable out, and puts it back. */
  cut(): void;
  mend(): void;
}

/** Whether this process may make namespaces. */
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

/** Makes namespace `number` (0..63) of this process; it is gone when the test ends. */
export function startNamespace(t: ExecutionContext, number: number): NetworkNamespace {
  const name = `osiris-${process.pid}-${number}`;
  const near = `os${process.pid}n${number}`;
  const far = `os${process.pid}f${number}`;
  // Four addresses for each cable, in a network that hosts of this kind seldom use.
  const address = (last: number) => `10.213.${process.pid % 256}.${4 * number + last}`;
  ip("netns", "add", name);
  t.teardown(() => ip("netns", "del", name)); // The cable goes with it.
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
