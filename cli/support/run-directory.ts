// Finds the checkpoint directory that a command names by its path or by a run of a cluster.

import { existsSync } from "node:fs";
import { connect, InputUnusableError } from "../../internal.ts";
import { type ConnectionArguments, connectionOf } from "./arguments.ts";
import { namedRun } from "./named-run.ts";

/**
 * `run` where such a path exists; else the checkpoint directory of that run of the cluster, if it
 * can be read here. @throws InputUnusableError, InvalidOptionError where no run has such a name
 */
export async function runDirectory(run: string, options: ConnectionArguments): Promise<string> {
  if (existsSync(run)) return run;
  const missing = `There is no directory ${run} here`;
  if (run.includes("/")) {
    const wanted = "expected the checkpoint directory of a run, or a run of a cluster";
    throw new InputUnusableError(run, `${missing}: ${wanted}`);
  }
  // Printed before connecting, which waits for a broker that is away.
  console.error(`${missing}: looking for a run of that name at ${options.nats}`);
  await using client = await connect(connectionOf(options));
  const { directory } = await (await namedRun(client, run)).status();
  return directory;
}
