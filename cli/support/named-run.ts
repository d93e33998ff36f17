// Finds the run that a command names by its id, as `osiris ls` lists it, or by the job's name.

import { type Client, InvalidOptionError, type Run } from "../../internal.ts";
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
