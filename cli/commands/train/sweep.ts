// osiris sweep JOB: trains a job many times with different values of some options, here or on a
// cluster, and sorts the trials by metric. The same command again resumes the sweep.

import type { Command } from "commander";
import {
  type Client,
  Cluster,
  connect,
  RemoteError,
  type Run,
  type RunResult,
  resolveJob,
  type Sweep,
  type SweptJob,
} from "../../../internal.ts";
import {
  type ChangeArguments,
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  integerFrom,
  withChanges,
  withClient,
  withCommon,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { aligned, metric, plural } from "../../support/format.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import { loadSweep } from "../../support/job-file.ts";
import { devicesFrom, fastestDevices, planWith, withConstants } from "../../support/machine.ts";

interface SweepArguments extends CommonOptions, ChangeArguments, ConnectionArguments {
  readonly parallel?: number;
  readonly devices?: number | "auto";
  readonly constants?: string;
}

/** The result of a trial. */
interface Outcome {
  readonly trial: number;
  readonly run: string;
  readonly values: SweptJob["values"];
  readonly status: RunResult["status"] | "failed";
  /** Metric that trials are compared by; for a failed trial, the sweep's own, if it names one. */
  readonly metric: Sweep["metric"];
  /** NaN where the trial has no such metric. */
  readonly value: number;
  readonly step?: number;
  readonly error?: string;
}

export function addSweep(program: Command): void {
  const command = program
    .command("sweep")
    .argument("<job>", "job file with a `sweep` section: the options to vary, and their values")
    .description("train a job with many values of its options, and list the best first")
    .option("--parallel <N>", "trials at a time (default: 1 here, 4 on a cluster)", integerFrom(1))
    .option(
      "--devices <N>",
      "devices of a trial without --nats; auto: the fastest number (default: the job's, else auto)",
      devicesFrom,
    );
  withCommon(withClient(withConstants(withChanges(command))), [
    "sweep job.yaml",
    "sweep job.yaml --set data.epochs=2 --json",
    "sweep job.yaml --nats nats://127.0.0.1:4222 --parallel 8",
  ]).action(async (job: string, options: SweepArguments) => {
    const isHere = command.getOptionValueSource("nats") === "default";
    process.exitCode = await sweepJob(job, options, isHere);
  });
}

/** Devices of each trial: as many as the first trial's job gets. */
async function devicesOf(
  [first]: readonly SweptJob[],
  { devices, constants }: SweepArguments,
  say: (line: string) => void,
): Promise<number> {
  if (first === undefined) return 1;
  const job = resolveJob({ ...first.job, ...(devices === undefined ? {} : { devices }) });
  return job.devices || fastestDevices(job, constants, say);
}

async function sweepJob(path: string, options: SweepArguments, isHere: boolean): Promise<number> {
  const { set, seed, parallel = isHere ? 1 : 4 } = options;
  const { sweep, trials } = await loadSweep(path, { set, seed });
  const json = options.json === true;
  const say = (line: string) => (json ? console.error(line) : console.log(line));
  if (isHere) planWith(options.constants);
  const devices = isHere ? await devicesOf(trials, options, say) : 0;
  await using here = isHere ? await Cluster.start({ devices: devices * parallel }) : undefined;
  await using client = await connect(
    here === undefined
      ? connectionOf(options)
      : { nats: here.url, cluster: here.name, token: here.token },
  );
  using _interrupt = onInterrupt(() => {
    const submitted = isHere ? "Finished trials are kept" : "Submitted trials continue";
    say(`${submitted}; the same command runs the remaining trials.`);
    process.exit(exitCodes.cancelled);
  });
  say(`${plural(trials.length, "trial")}, ${parallel} at a time`);
  const outcomes: Outcome[] = [];
  // In this process each trial gets `devices`; on a cluster, the devices that its job asks for.
  const waiting = trials.map((one) => (isHere ? { ...one, job: { ...one.job, devices } } : one));
  const work = async () => {
    for (let trial = waiting.shift(); trial !== undefined; trial = waiting.shift()) {
      const outcome = await outcomeOf(client, trial, sweep);
      outcomes.push(outcome);
      if (json) console.log(JSON.stringify({ report: "trial", ...outcome }));
      else say(`  ${outcomes.length} of ${trials.length}: ${cellsOf(outcome, sweep).join("  ")}`);
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  const name = outcomes.find(({ metric }) => metric !== undefined)?.metric ?? "auc";
  const sorted = sortedBy(name, outcomes);
  if (json) {
    console.log(JSON.stringify({ report: "sweep", metric: name, trials: sorted }));
  } else {
    const head = ["trial", name, "status", "run", ...Object.keys(sweep.over)];
    const lines = aligned([head, ...sorted.map((outcome) => cellsOf(outcome, sweep))]);
    for (const line of ["", ...lines]) say(line);
  }
  return sorted.some(({ status }) => status === "failed") ? exitCodes.failed : exitCodes.done;
}

async function outcomeOf(client: Client, trial: SweptJob, sweep: Sweep): Promise<Outcome> {
  const run = await runOf(client, trial);
  const about = { trial: trial.index, run: run.run, values: trial.values };
  try {
    const result = await run.result();
    const { status, step } = result;
    const name = sweep.metric ?? (result.rmse === undefined ? "auc" : "rmse");
    return { ...about, status, step, metric: name, value: figureOf(result, name) };
  } catch (error) {
    if (!(error instanceof RemoteError)) throw error;
    const { metric: name } = sweep;
    return { ...about, status: "failed", metric: name, value: Number.NaN, error: error.message };
  }
}

/** The run submitted under the trial's key; a new run where that one failed or was cancelled. */
async function runOf(client: Client, { job, key }: SweptJob): Promise<Run> {
  for (let attempt = 1; ; attempt++) {
    const asked = { job, key: attempt === 1 ? key : `${key}-${attempt}` };
    const { run, status } = await client.request("submit", asked);
    if (status !== "failed" && status !== "cancelled") return client.run(run);
  }
}

function figureOf(result: RunResult, name: NonNullable<Sweep["metric"]>): number {
  const value = name === "trainLoss" ? result.history.at(-1)?.trainLoss : result[name];
  return value ?? Number.NaN;
}

/** Sorts the best first; trials without a value come last, in their order. */
function sortedBy(name: string, outcomes: readonly Outcome[]): Outcome[] {
  const sign = ["auc", "gauc", "r2"].includes(name) ? -1 : 1;
  const rank = ({ value }: Outcome) =>
    Number.isNaN(value) ? Number.POSITIVE_INFINITY : sign * value;
  return [...outcomes].sort((a, b) => {
    const [first, second] = [rank(a), rank(b)];
    return first === second ? a.trial - b.trial : first - second;
  });
}

function cellsOf({ trial, value, status, run, values }: Outcome, { over }: Sweep): string[] {
  const shown = Object.keys(over).map((option) => {
    const one = values[option];
    return typeof one === "number" ? String(Number(one.toPrecision(6))) : JSON.stringify(one);
  });
  return [String(trial), metric(value), status, run, ...shown];
}
