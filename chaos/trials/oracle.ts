// The oracle: finds the expected result of a run by running its job again without faults.

import type { Run } from "../../actors/client/run.ts";
import { Cluster } from "../../actors/cluster/cluster.ts";
import type { RunResult } from "../../actors/run/state/run-result.ts";
import type { Incident } from "../../actors/runtime/incident.ts";
import type { JobOptions } from "../../src/job/job.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";

/** A run compared with its reference run. */
export interface Verdict {
  /** Whether both models are equal, byte for byte. */
  readonly equal: boolean;
  readonly digest: string;
  readonly referenceDigest: string;
  /** Incidents of the run, in order. */
  readonly incidents: readonly Incident[];
  /** Per recovery: from the incident to the first step after it. */
  readonly recoverySeconds: readonly number[];
  readonly result: RunResult;
  readonly reference: RunResult;
}

/**
 * Waits for the end of a run and compares it with the reference run of its job.
 * @throws RemoteError where either of them failed
 */
export async function compareWithReference(
  run: Run,
  job: JobOptions,
  options: { readonly devices: number },
): Promise<Verdict> {
  const incidents: Incident[] = [];
  const recoverySeconds: number[] = [];
  for await (const event of run.events()) {
    if (event.type === "run.recovered") recoverySeconds.push(event.seconds);
    if (event.type !== "run.incident") continue;
    const { offender, supervisor, context, error } = event;
    incidents.push({ offender, supervisor, context, reason: error });
  }
  const result = await run.result();
  const reference = await referenceRun(job, options);
  const [{ digest }, referenceDigest] = [result, reference.digest];
  const equal = digest === referenceDigest;
  return { equal, digest, referenceDigest, incidents, recoverySeconds, result, reference };
}

/** The job's result on a temporary cluster with a temporary checkpoint directory. */
export async function referenceRun(
  job: JobOptions,
  options: { readonly devices: number },
): Promise<RunResult> {
  using home = temporaryHome("osiris-reference-");
  await using cluster = await Cluster.start({ devices: options.devices });
  const run = await cluster.submit({
    ...job,
    checkpoint: { ...job.checkpoint, directory: home.path },
  });
  return await run.result();
}
