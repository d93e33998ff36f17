// Machines of a test (bench/machines), on which it starts programs of Osiris.

import type { ExecutionContext } from "ava";
import {
  type BareMachine,
  type Cable,
  startBareNetwork,
} from "../../../bench/machines/machines.ts";
import { type Running, startCli, startNode } from "../processes/start-cli.ts";

export interface Machine extends BareMachine {
  /** Starts `osiris` with these arguments, in its work directory. */
  osiris(...args: readonly string[]): Running;
  /** Starts a script of Node. */
  node(...args: readonly string[]): Running;
}

/** A network; `machine` starts a machine with an empty disk and further variables. */
export interface TestNetwork {
  machine(environment?: Readonly<Record<string, string>>): Promise<Machine>;
}

/** Starts a network without machines; it ends with the test, and all its machines. */
export async function startNetwork(
  t: Pick<ExecutionContext, "teardown">,
  cable?: Cable,
): Promise<TestNetwork> {
  const network = await startBareNetwork(t, cable);
  return {
    async machine(environment) {
      const own = await network.machine(environment);
      const { inside } = own;
      return {
        ...own,
        osiris: (...args) => startCli(args, "/", inside),
        node: (...args) => startNode(args, "/", inside),
      };
    },
  };
}
