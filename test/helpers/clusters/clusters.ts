// Clusters for tests: small jobs on real threads, in directories removed after the test.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type BreakableLauncher,
  breakableLauncher,
  Cluster,
  type ClusterOptions,
  type Incident,
  type JobOptions,
  type Run,
  type RunEvent,
  type RunResult,
} from "../../../internal.ts";
import { sharedResult } from "../../runner/shared-results.ts";

export interface TestCluster extends AsyncDisposable {
  readonly cluster: Cluster;
  readonly threads: BreakableLauncher;
  /** The incidents that the cluster's supervisors recovered from. */
  readonly incidents: Incident[];
  /** A small job with a checkpoint directory of its own. */
  job(overrides?: Partial<JobOptions>): JobOptions;
}

/**
 * The steps of the small job: it evaluates at 15, 30 and 43, saves at 10, 20, 30, 40 and 43; the
 * last batch has 12 samples.
 */
export const smallSteps = 43;

export async function startTestCluster(
  devices = 2,
  options: Partial<ClusterOptions> = {},
): Promise<TestCluster> {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  const threads = breakableLauncher();
  const incidents: Incident[] = [];
  const cluster = await Cluster.start({
    devices,
    faultsAllowed: true,
    launcher: threads.launcher,
    ...options,
    onIncident: (incident) => incidents.push(incident),
  });
  return {
    cluster,
    threads,
    incidents,
    job: smallJobs(directory),
    async [Symbol.asyncDispose]() {
      await cluster.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Makes small jobs, each with its own checkpoint directory below `directory`. */
export function smallJobs(directory: string): TestCluster["job"] {
  let jobs = 0;
  return (overrides = {}) => {
    const { data, checkpoint, ...rest } = overrides;
    return {
      model: smallModel,
      data: { ...smallData, ...data, cache: join(directory, "cache") } as JobOptions["data"],
      evaluation: { everySteps: 15 },
      checkpoint: {
        everySteps: 10,
        directory: join(directory, `run-${jobs++}`),
        ...checkpoint,
      },
      sharding: "as-written", // Else small tables are replicated, and no vector is sent.
      stepDeadlineMs: 5000,
      restarts: { restartsMax: 100, windowMs: 1 }, // No backoff: these runs do not test it.
      ...rest,
    };
  };
}

export const smallModel = {
  kind: "dlrm",
  dense: 4,
  tables: ["a", "b", "c"].map((name) => ({ name, rows: 200, dim: 8 })),
  bottom: [8, 8],
  top: [8, 1],
} as const satisfies JobOptions["model"];

export const smallData = {
  kind: "synthetic",
  samples: 3000,
  dense: 4,
  batchSize: 64,
} as const;

/** A completed run: its result, and all of its events. */
export interface Story {
  readonly run: Run;
  readonly result: RunResult;
  readonly events: readonly RunEvent[];
}

/** Submits a job and follows it to its end. `on` receives every event as it comes. */
export async function runJob(
  { cluster }: { readonly cluster: Pick<Cluster, "submit"> },
  job: JobOptions,
  on: (event: RunEvent, run: Run) => unknown = () => {},
): Promise<Story> {
  const run = await cluster.submit(job);
  const events: RunEvent[] = [];
  for await (const event of run.events()) {
    events.push(event);
    await on(event, run);
  }
  return { run, events, result: await run.result() };
}

/** The result of the small job without faults, for each number of epochs. */
export function calmResult(epochs = 1): Promise<RunResult> {
  return sharedResult(`calm-${epochs}`, async () => {
    await using place = await startTestCluster();
    return (await runJob(place, inEpochs(place.job(), epochs))).result;
  });
}

/**
 * The job with this number of epochs. A run of fewer epochs, submitted again with more, resumes: a
 * way to end a run at a known step.
 */
export function inEpochs(job: JobOptions, epochs: number): JobOptions {
  return { ...job, data: { ...job.data, epochs } as JobOptions["data"] };
}

/** The events of one type. */
export function only<Type extends RunEvent["type"]>(
  events: readonly RunEvent[],
  type: Type,
): Extract<RunEvent, { type: Type }>[] {
  return events.filter((event) => event.type === type) as Extract<RunEvent, { type: Type }>[];
}
