// osiris chaos JOB: injects the faults of a schedule drawn from a seed into a job with real threads
// and processes, and compares the model with that of its reference run, bit for bit. With
// --simulate, whole clusters run in virtual time instead.

import { readFileSync } from "node:fs";
import { type Command, InvalidArgumentError, Option } from "commander";
import { checkSchedule, faultGroups, faultKinds } from "../../../chaos/faults/schedule.ts";
import { drawFor, runTrial, shrinkTrial } from "../../../chaos/trials/trial.ts";
import { runReference } from "../../../chaos/trials/verdict.ts";
import {
  checkSynchronous,
  type FaultKind,
  figuresOf,
  InputUnusableError,
  type JobOptions,
  type ReferenceRun,
  resolveJob,
  type Schedule,
  soak,
  type Trial,
} from "../../../internal.ts";
import { type CommonOptions, integerFrom, withCommon } from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { duration } from "../../support/format.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import { loadJob } from "../../support/job-file.ts";
import {
  figureLines,
  scheduleLines,
  shrunkLines,
  trialLines,
  trialRecord,
  verdictLine,
} from "../../views/chaos-report.ts";
import { simulation } from "./chaos-simulate.ts";

interface ChaosArguments extends CommonOptions {
  readonly simulate?: true;
  readonly crashPoints?: true;
  readonly pairs: number;
  readonly jobs: number;
  readonly seed: number;
  readonly seeds?: readonly number[];
  readonly schedule?: string;
  readonly faults?: readonly FaultKind[];
  readonly devices?: number;
  readonly hosts: number;
  readonly stepDeadline?: number;
  readonly shrink: boolean;
  readonly report?: boolean;
  readonly soak?: number;
  readonly every: number;
}

/** Exit codes by verdict, so that scripts can distinguish a wrong model from a run that hangs. */
const verdictCodes = { equal: 0, harness: 1, safety: 3, liveness: 4 } as const;

export function addChaos(program: Command): void {
  const command = program
    .command("chaos")
    .argument(
      "[job]",
      "job file, as for `osiris train`; left out with --simulate and --crash-points",
    )
    .description(
      "train a job under injected faults, and compare its model with that of a run without faults",
    )
    .option("--simulate", "simulate whole clusters with small jobs, in one thread and virtual time")
    .option(
      "--crash-points",
      "simulate a power loss at each disk operation of a run, one simulation for each",
    )
    .option(
      "--pairs <N>",
      "with --crash-points: also two power losses, at most N operations apart",
      integerFrom(0),
      8,
    )
    .option(
      "--jobs <N>",
      "with --simulate or --crash-points: threads that simulate",
      integerFrom(1),
      2,
    )
    .option("--seed <N>", "seed from which the schedule of faults is drawn", integerFrom(0), 1)
    .option(
      "--seeds <LIST>",
      "one schedule for each of these seeds, such as 1-50 or 3,5,8",
      seedsFrom,
    )
    .option(
      "--schedule <FILE>",
      "inject the schedule of faults in this file: JSON, as printed by an earlier run",
    )
    .option(
      "--faults <KINDS>",
      `inject only these kinds or groups of faults; groups: ${groupNames}`,
      kindsFrom,
    )
    .option(
      "--devices <N>",
      "devices of each host (default: the job's `devices`, else 2)",
      integerFrom(1),
    )
    .option("--hosts <H>", "host processes; 0: all devices are in one process", integerFrom(0), 0)
    .option(
      "--step-deadline <MS>",
      "milliseconds after which a stalled step fails (default: the job's `stepDeadlineMs`)",
      integerFrom(1),
    )
    .option("--no-shrink", "do not search for a smaller part of a failing schedule that also fails")
    .option("--report", "print a table of figures at the end: faults, recovery times, goodput")
    .option(
      "--soak <TIME>",
      "repeat the job for this time, such as 10m, and kill actors at random",
      msFrom,
    )
    .addOption(
      new Option("--every <TIME>", "with --soak: mean time between two kills")
        .argParser(msFrom)
        .default(15_000, "15s"),
    );
  withCommon(command, [
    "chaos job.yaml --seed 42",
    "chaos job.yaml --seeds 1-50 --hosts 2 --devices 1 --report",
    "chaos job.yaml --faults kill,messages --seeds 1-10",
    "chaos job.yaml --schedule failing.json",
    "chaos --simulate --seeds 1-1000",
    "chaos --crash-points --pairs 48",
    "chaos job.yaml --soak 10m --every 15s --report",
  ])
    .addHelpText(
      "after",
      "\nFurther exit codes: 3 the model differs from the reference run's, 4 the run did not end.",
    )
    .action(async (path: string | undefined, options: ChaosArguments) => {
      const { simulate, crashPoints, seeds = [options.seed] } = options;
      const isSimulated = simulate === true || crashPoints === true;
      if (isSimulated) process.exitCode = await simulation({ ...options, seeds });
      else if (path === undefined) command.error("missing required argument 'job'");
      else process.exitCode = await chaos(path, options);
    });
}

const groupNames = Object.keys(faultGroups).join(", ");

async function chaos(path: string, options: ChaosArguments): Promise<number> {
  const given = await loadJob(path);
  checkSynchronous(
    resolveJob(given),
    "a comparison of bits, which asynchronous runs do not repeat",
  );
  const { stepDeadline } = options;
  const job = stepDeadline === undefined ? given : { ...given, stepDeadlineMs: stepDeadline };
  const say = (line: string) => (options.json === true ? console.error(line) : console.log(line));
  const stop = new AbortController();
  using _interrupt = onInterrupt(() => {
    say("Stopping (Ctrl-C again: at once) ...");
    stop.abort();
  });
  const work: Work = { path, job, options, say, signal: stop.signal };
  const trials = await (options.soak === undefined ? schedules(work) : soaking(work, options.soak));
  if (stop.signal.aborted) return exitCodes.cancelled;
  if (options.report === true || options.soak !== undefined) {
    for (const line of figureLines(figuresOf(trials))) say(line);
  }
  if (options.json === true) {
    console.log(
      JSON.stringify({ report: "chaos", ...figuresOf(trials), failed: failedSeeds(trials) }),
    );
  }
  const worst = (["safety", "liveness", "harness"] as const).find((verdict) =>
    trials.some((trial) => trial.verdict === verdict),
  );
  return verdictCodes[worst ?? "equal"];
}

interface Work {
  readonly path: string;
  readonly job: JobOptions;
  readonly options: ChaosArguments;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Runs the trials one after the other, and shrinks each schedule that fails. */
async function schedules(work: Work): Promise<Trial[]> {
  const { path, job, options, say, signal } = work;
  const file = options.schedule === undefined ? undefined : scheduleIn(options.schedule);
  const environment = file?.environment ?? environmentOf(work);
  const reference = await referenceOf(work, environment);
  const { faults: kinds } = options;
  const drawn = (seed: number) =>
    drawFor(job, reference, { seed, environment, ...(kinds === undefined ? {} : { kinds }) });
  const planned = file === undefined ? (options.seeds ?? [options.seed]).map(drawn) : [file];
  const trials: Trial[] = [];
  for (const schedule of planned) {
    if (signal.aborted) break;
    for (const line of scheduleLines(schedule)) say(line);
    const trial = await runTrial(job, schedule, reference, { signal });
    if (trial.isCancelled) break;
    trials.push(trial);
    for (const line of trialLines(trial)) say(line);
    if (options.json === true) console.log(JSON.stringify(trialRecord(trial)));
    if (trial.verdict === "equal" || !options.shrink || schedule.faults.length < 2) continue;
    say("Shrinking the schedule ...");
    const onTrial = (part: Trial) =>
      say(`  ${part.faults.length} of ${schedule.faults.length} faults: ${part.verdict}`);
    const least = await shrinkTrial(job, trial, reference, { signal, onTrial });
    for (const line of shrunkLines(least, path)) say(line);
  }
  return trials;
}

async function soaking(work: Work, forMs: number): Promise<readonly Trial[]> {
  const { job, options, say, signal } = work;
  const { seed, every: everyMs } = options;
  const environment = environmentOf(work);
  const reference = await referenceOf(work, environment);
  const { trials, kills } = await soak(job, reference, {
    ...{ seed, environment, forMs, everyMs, signal },
    onKill: (what, afterMs) => say(`  killed ${what} after ${duration(afterMs / 1000)}`),
    onTrial: (trial) => say(`${trial.trainingSeconds.toFixed(1)} s: ${verdictLine(trial)}`),
  });
  say(`${kills} kills`);
  return trials;
}

async function referenceOf(
  { job, say }: Work,
  { devices, hosts }: Schedule["environment"],
): Promise<ReferenceRun> {
  say("First its reference run, undisturbed ...");
  const reference = await runReference(job, devices * Math.max(1, hosts));
  const { result, trainingSeconds } = reference;
  say(`${result.step} steps in ${duration(trainingSeconds)}: ${result.digest}`);
  return reference;
}

function environmentOf({ job, options }: Work): Schedule["environment"] {
  return { devices: options.devices ?? (resolveJob(job).devices || 2), hosts: options.hosts };
}

/** @throws InputUnusableError, InvalidOptionError */
function scheduleIn(path: string): Schedule {
  let given: unknown;
  try {
    given = JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read the schedule ${path}: ${message}`, { cause });
  }
  return checkSchedule(given);
}

function failedSeeds(trials: readonly Trial[]): (number | null)[] {
  return trials.filter(({ verdict }) => verdict !== "equal").map(({ schedule }) => schedule.seed);
}

function seedsFrom(text: string): number[] {
  return text.split(",").flatMap((part) => {
    const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(part.trim()) ?? [];
    if (first === undefined || Number(last) < Number(first)) {
      throw new InvalidArgumentError("Expected seeds, as in 1-50 or 3,5,8.");
    }
    const count = Number(last) - Number(first) + 1;
    return Array.from({ length: count }, (_, i) => Number(first) + i);
  });
}

function kindsFrom(text: string): FaultKind[] {
  return text.split(",").flatMap((name): readonly FaultKind[] => {
    const group = Object.entries(faultGroups).find(([key]) => key === name.trim());
    if (group !== undefined) return group[1];
    const kind = faultKinds.find((one) => one === name.trim());
    if (kind !== undefined) return [kind];
    throw new InvalidArgumentError(
      `Expected groups (${groupNames}) or kinds (${faultKinds.join(", ")}).`,
    );
  });
}

const timeUnits: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

function msFrom(text: string): number {
  const [, digits = "", unit = ""] = /^([\d.]+)\s*(ms|s|m|h)$/.exec(text.trim()) ?? [];
  const value = Number(digits) * (timeUnits[unit] ?? Number.NaN);
  if (digits !== "" && value > 0) return value;
  throw new InvalidArgumentError("Expected a time, as in 15s, 10m or 1h.");
}
