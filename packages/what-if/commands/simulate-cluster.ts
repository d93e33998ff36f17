// osiris simulate-cluster JOB --hardware FILE...: predicts how fast a job would train on machines
// that the user does not have, what limits it, and which changes would help most. Several kinds or
// numbers of hosts give a table, from which --budget and --deadline choose the cheapest. Files are
// written at the end of the prediction, so that Ctrl-C may end the process at once.

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { extname } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { measuredGroups } from "../../../actors/threads/data/prepare-data.ts";
import {
  type ChangeArguments,
  type CommonOptions,
  integerFrom,
  numberFrom0,
  secondsFrom,
  withChanges,
  withCommon,
} from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { plural } from "../../../cli/support/format.ts";
import { loadJob, withSet } from "../../../cli/support/job-file.ts";
import { withExistingFiles } from "../../../cli/support/machine.ts";
import {
  ClusterTooSmallError,
  chromeTrace,
  countedStatistics,
  InputUnusableError,
  InvalidOptionError,
  type JobSpec,
  resolveJob,
  type WorkloadOptions,
} from "../../../internal.ts";
import type { Precision } from "../costs/dense-costs.ts";
import { timelinesOf } from "../engine/timelines.ts";
import { precisions } from "../hardware/hardware.ts";
import { readCluster } from "../hardware/read-hardware.ts";
import type { Hardware } from "../model.ts";
import { paperModel } from "../papers/models.ts";
import { type MeasuredChange, measureChanges } from "../predict/changes.ts";
import { type ClusterChoice, chooseCluster, type Offer } from "../predict/choose-cluster.ts";
import { hostCountsFrom } from "../predict/host-counts.ts";
import { type PlannedCluster, planCluster, predictPlanned } from "../predict/predict-cluster.ts";
import { detailLines, jsonOf, tableLines, verdictLines } from "./cluster-report.ts";
import { drawTimeline } from "./timeline-picture.ts";

interface SimulateArguments extends CommonOptions, ChangeArguments {
  readonly hardware: readonly string[];
  readonly serversHardware?: string;
  readonly hosts: readonly number[];
  readonly devices?: number;
  readonly batchPerDevice?: number;
  readonly precision: Precision;
  readonly samples?: number;
  readonly budget?: number;
  readonly deadline?: number;
  readonly checkpointEvery?: number;
  readonly changes: number;
  readonly trace?: string;
  readonly picture?: string;
}

export function addSimulateCluster(program: Command): void {
  const command = program
    .command("simulate-cluster")
    .argument("<job>", "job file, as for train; or the name of a paper's model, such as model-a")
    .description("predict how fast a job would train on other machines, and what would help")
    .requiredOption(
      "--hardware <FILES...>",
      "kinds of machines: hardware files, or names in the package, such as zionex",
    )
    .option(
      "--servers-hardware <FILE>",
      "kind of machine of the last hosts, those of servers (placement.servers)",
    )
    .option("--hosts <LIST>", "numbers of hosts: 16, or 1,2,4...16", countsFrom, [1])
    .option("--devices <N>", "devices of all hosts (default: all that they have)", integerFrom(1))
    .option(
      "--batch-per-device <N>",
      "samples of a step for each device (default: the job's batch, divided among them)",
      integerFrom(1),
    )
    .addOption(
      new Option("--precision <NAME>", "format of the products of dense layers")
        .choices(precisions)
        .default("float32"),
    )
    .option("--samples <N>", "predict the training of N samples, such as 1e12", samplesFrom)
    .option("--budget <PRICE>", "with --samples: the most that it may cost", above0(numberFrom0))
    .option(
      "--deadline <TIME>",
      "with --samples: the longest that it may take, such as 12h, 30d",
      above0(secondsFrom),
    )
    .option(
      "--checkpoint-every <TIME>",
      "time between checkpoints, such as 30m (default: the best for the hosts' failures)",
      above0(secondsFrom),
    )
    .option("--changes <N>", "list the N changes that would help most", integerFrom(0), 3)
    .option("--trace <FILE>", "write the simulated steps as a trace for ui.perfetto.dev")
    .option("--picture <FILE>", "draw the timeline of a step as SVG");
  withCommon(withChanges(command), [
    "simulate-cluster job.yaml --hardware zionex --hosts 16",
    "simulate-cluster model-a --hardware zionex v100-prototype dgx-h100 --hosts 16",
    "simulate-cluster job.yaml --hardware mine.yaml --hosts 1,2,4...16 --samples 1e12 --deadline 7d",
    "simulate-cluster job.yaml --hardware zionex --hosts 2 --trace step.json --picture step.svg",
  ]).action(async (job: string, options: SimulateArguments) => {
    process.exitCode = await simulate(job, options);
  });
}

/** Wraps a reader of numbers, and refuses 0, by which prices and shares would be divided. */
function above0(read: (text: string) => number): (text: string) => number {
  return (text) => {
    const value = read(text);
    if (value > 0) return value;
    throw new InvalidArgumentError("Expected more than 0.");
  };
}

/** Most samples; a larger number is probably a wrong exponent. */
const samplesMax = 1e18;

function samplesFrom(text: string): number {
  const value = above0(numberFrom0)(text);
  if (value >= 1 && value <= samplesMax) return value;
  throw new InvalidArgumentError(`Expected 1 to ${samplesMax.toExponential()} samples.`);
}

function countsFrom(text: string): number[] {
  const counts = hostCountsFrom(text);
  if (counts !== undefined) return counts;
  throw new InvalidArgumentError("Expected numbers of hosts > 0, as in 16, 1,2,4 or 1,2,4...16.");
}

async function simulate(path: string, options: SimulateArguments): Promise<number> {
  checkOptionsOf(options);
  const kinds = options.hardware.map((kind) => readCluster(kind, options.serversHardware));
  const jobOn = await jobsOf(path, options);
  const [hardware] = kinds;
  const [hosts = 1] = options.hosts;
  if (hardware !== undefined && kinds.length === 1 && options.hosts.length === 1) {
    return await detail(path, await jobOn(hardware, hosts), hardware, options);
  }
  const offers: Offer[] = [];
  for (const kind of kinds) {
    for (const count of options.hosts) {
      console.error(`  ${plural(count, "host")} of ${kind.name} ...`);
      offers.push(offerOf(kind, count, await jobOn(kind, count), options));
    }
  }
  const choice = choiceOf(offers, options);
  if (options.json === true) console.log(JSON.stringify(jsonOf(path, offers, choice)));
  else {
    for (const line of tableLines(path, choice?.offers ?? offers)) console.log(line);
    for (const line of choice === undefined ? [] : verdictLines(choice)) console.log(line);
  }
  return exitCodeOf(choice, options);
}

/** With `--samples`: the choice of the cheapest cluster that meets the requirements. */
function choiceOf(
  offers: readonly Offer[],
  { samples, budget, deadline }: SimulateArguments,
): ClusterChoice | undefined {
  return samples === undefined ? undefined : chooseCluster(offers, { samples, budget, deadline });
}

/** A budget or a deadline that no cluster meets is a failure. */
function exitCodeOf(choice: ClusterChoice | undefined, options: SimulateArguments): number {
  const isMet = !hasLimits(options) || choice?.chosen !== undefined;
  return isMet ? exitCodes.done : exitCodes.failed;
}

function hasLimits({ budget, deadline }: SimulateArguments): boolean {
  return (budget ?? deadline) !== undefined;
}

/** @throws InvalidOptionError where options do not go together */
function checkOptionsOf(options: SimulateArguments): void {
  const { samples, hardware, hosts } = options;
  const refuse = (option: string, sentence: string) => {
    throw new InvalidOptionError(option, `Expected ${sentence} beside \`${option}\``);
  };
  const isTable = hardware.length > 1 || hosts.length > 1;
  for (const option of ["budget", "deadline"] as const) {
    if (options[option] !== undefined && samples === undefined) {
      refuse(`--${option}`, "`--samples`, the samples to train,");
    }
  }
  for (const option of ["trace", "picture"] as const) {
    if (options[option] !== undefined && isTable) {
      refuse(`--${option}`, "one kind of machine and one number of hosts");
    }
  }
}

/** A job on some hosts, and the known facts of its data. */
interface JobOnHosts extends WorkloadOptions {
  readonly job: JobSpec;
}

type JobOn = (hardware: Hardware, hosts: number) => Promise<JobOnHosts>;

/** The job for a number of hosts: a paper's model has a batch per device, a file's job its own. */
async function jobsOf(path: string, options: SimulateArguments): Promise<JobOn> {
  const { set = [], seed, batchPerDevice } = options;
  const devicesOn = ({ host }: Hardware, hosts: number) => options.devices ?? hosts * host.devices;
  const withBatch = (job: JobSpec, devices: number): JobSpec => {
    const batchSize = batchPerDevice === undefined ? job.data.batchSize : devices * batchPerDevice;
    return { ...job, data: { ...job.data, batchSize } };
  };
  if (!existsSync(path) && extname(path) === "") {
    return async (hardware, hosts) => {
      const devices = devicesOn(hardware, hosts);
      const seeded = { ...paperModel(path, { devices }), ...(seed !== undefined && { seed }) };
      const job = resolveJob(await withSet(seeded, set));
      return { job: withBatch(job, devices) };
    };
  }
  const job = await withExistingFiles(resolveJob(await loadJob(path, { set, seed })));
  const counted = countedStatistics(job);
  const ikjt = counted && (await measuredGroups(job));
  return (hardware, hosts) =>
    Promise.resolve({
      job: withBatch(job, devicesOn(hardware, hosts)),
      statistics: counted?.features,
      ikjt,
    });
}

function planned(
  { job, ...known }: JobOnHosts,
  hardware: Hardware,
  { hosts, advise }: { readonly hosts: number; readonly advise: boolean },
  { devices, precision, checkpointEvery }: SimulateArguments,
): PlannedCluster {
  const requested = { hosts, devices, precision, checkpointEvery, advise };
  return planCluster(job, hardware, { ...known, ...requested });
}

function offerOf(
  hardware: Hardware,
  hosts: number,
  job: JobOnHosts,
  options: SimulateArguments,
): Offer {
  const { name } = hardware;
  try {
    const plan = planned(job, hardware, { hosts, advise: false }, options);
    return { hardware: name, hosts, prediction: predictPlanned(plan, hardware) };
  } catch (error) {
    if (!(error instanceof ClusterTooSmallError)) throw error;
    return { hardware: name, hosts, prediction: error.message };
  }
}

async function detail(
  path: string,
  job: JobOnHosts,
  hardware: Hardware,
  options: SimulateArguments,
): Promise<number> {
  const { json, changes: shown, trace, picture, samples } = options;
  const [hosts = 1] = options.hosts;
  console.error(`  ${plural(hosts, "host")} of ${hardware.name} ...`);
  const plan = planned(job, hardware, { hosts, advise: true }, options);
  const found = predictPlanned(plan, hardware);
  const changes = shown === 0 ? [] : measured(plan, hardware, found).slice(0, shown);
  const { perHost } = plan.devices;
  if (trace !== undefined) {
    await write(trace, [...chromeTrace(timelinesOf(found.steps, perHost))].join(""));
  }
  if (picture !== undefined) await write(picture, drawTimeline(found));
  const offer = { hardware: hardware.name, hosts, prediction: found };
  const choice = choiceOf([offer], options);
  if (json === true) console.log(JSON.stringify(jsonOf(path, [offer], choice, changes)));
  else {
    const seconds = choice?.offers[0]?.seconds;
    for (const line of detailLines(path, found, changes, { samples, seconds })) console.log(line);
    const isJudged = choice !== undefined && hasLimits(options);
    for (const line of isJudged ? verdictLines(choice) : []) console.log(line);
  }
  return exitCodeOf(choice, options);
}

function measured(
  ...[plan, hardware, now]: Parameters<typeof measureChanges>
): readonly MeasuredChange[] {
  const changes = measureChanges(plan, hardware, now);
  for (;;) {
    const next = changes.next();
    if (next.done === true) return next.value;
    console.error(`  with ${next.value} ...`);
  }
}

async function write(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot write ${path}: ${reason}`, { cause });
  }
}
