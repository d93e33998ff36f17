// Finds the run that a command names by its id, as `osiris ls` lists it, or by the job's name.

import { existsSync } from "node:fs";
import {
  type Client,
  connect,
  InputUnusableError,
  InvalidOptionError,
  isObjectAddress,
  type Run,
} from "../../internal.ts";
import { type ConnectionArguments, connectionOf } from "./arguments.ts";
import { plural } from "./format.ts";

/**
 * The run of that id, else the newest run of the job of that name; stderr notes if it has several.
 * @throws InvalidOptionError where there is neither
 */
export async function namedRun(client: Client, name: string): Promise<Run> {
  const runs = await client.list();
  if (runs.some(({ run }) => run === name)) return client.run(name);
  const ofJob = runs.filter((one) => one.name === name);
  const newest = ofJob.at(-1);
  if (newest === undefined) {
    const message = `There is no run and no job \`${name}\` in the cluster: \`osiris ls\` lists them`;
    throw new InvalidOptionError("run", message);
  }
  const { run, status } = newest;
  if (ofJob.length > 1) {
    console.error(
      `${plural(ofJob.length, "run")} of job \`${name}\`: this is ${run} (${status}), the newest`,
    );
  }
  return client.run(run);
}

/**
 * Returns `run` if it is an address of objects or an existing path; else the checkpoint directory
 * of the cluster's run with that name. @throws InputUnusableError, InvalidOptionError where no run
 * has such a name
 */
export async function runDirectory(run: string, options: ConnectionArguments): Promise<string> {
  if (isObjectAddress(run) || existsSync(run)) return run;
  const missing = `There is no directory ${run} here`;
  if (run.includes("/")) {
    const wanted = "expected the checkpoint directory of a run, or a run of a cluster";
    throw new InputUnusableError(run, `${missing}: ${wanted}`);
  }
  // Printed before connecting, because that waits while the broker cannot be reached.
  console.error(`${missing}: looking for a run of that name at ${options.nats}`);
  await using client = await connect(connectionOf(options));
  const { directory } = await (await namedRun(client, run)).status();
  return directory;
}
