// osiris chaos JOB: breaks a job by a schedule drawn from a seed, with real threads and processes,
// and compares what it comes to with its reference run, bit for bit; with --simulate,
// whole clusters in virtual time instead.

import { readFileSync } from "node:fs";
import { type Command, InvalidArgumentError } from "commander";
import { checkSchedule, faultGroups, faultKinds } from "../../../chaos/faults/schedule.ts";
import { drawFor, runTrial, shrinkTrial } from "../../../chaos/trials/trial.ts";
import { runReference } from "../../../chaos/trials/verdict.ts";
import {
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

/** What tells a wrong model from a run that hangs, in a script. */
const verdictCodes = { equal: 0, harness: 1, safety: 3, liveness: 4 } as const;

/** Adds the command. */
export function addChaos(program: Command): void {
  const command = program
    .command("chaos")
    .argument("[job]", "job file, as for `osiris train`; none with --simulate or --crash-points")
    .description(
      "break a job by a schedule drawn from a seed, and compare it with its reference run",
    )
    .option("--simulate", "whole clusters in one thread and virtual time, small jobs of their own")
    .option("--crash-points", "as that, with power lost at every operation of runs on their disks")
    .option("--pairs <N>", "with it: and twice, up to so many operations apart", integerFrom(0), 8)
    .option("--jobs <N>", "with either: threads that share the work", integerFrom(1), 2)
    .option("--seed <N>", "draw the schedule from this seed", integerFrom(0), 1)
    .option("--seeds <LIST>", "one schedule for each of these: 1-50, or 3,5,8", seedsFrom)
    .option("--schedule <FILE>", "carry out this schedule, as it was printed (JSON)")
    .option("--faults <KINDS>", `of these kinds or groups alone: ${groupNames}`, kindsFrom)
    .option("--devices <N>", "devices of each host (default: the job's, else 2)", integerFrom(1))
    .option(
      "--hosts <H>",
      "hosts that join as processes; 0: one process has all",
      integerFrom(0),
      0,
    )
    .option(
      "--step-deadline <MS>",
      "instead of the job's: how long a stall may last",
      integerFrom(1),
    )
    .option("--no-shrink", "leave a schedule that fails as it is")
    .option("--report", "print the table of figures at the end")
    .option(
      "--soak <TIME>",
      "train again and again for so long, as 10m, and kill something …",
      msFrom,
    )
    .option("--every <TIME>", "… every so often, on average", msFrom, 15_000);
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
      "\n3: another model than its reference run; 4: the run did not come to its end.",
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

/** One trial after the other; a schedule that fails is shrunk. */
async function schedules(work: Work): Promise<Trial[]> {
  const { path, job, options, say, signal } = work;
  const file = options.schedule === undefined ? undefined : scheduleIn(options.schedule);
  const stage = file?.stage ?? stageOf(work);
  const reference = await referenceOf(work, stage);
  const { faults: kinds } = options;
  const drawn = (seed: number) =>
    drawFor(job, reference, { seed, stage, ...(kinds === undefined ? {} : { kinds }) });
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
  const stage = stageOf(work);
  const reference = await referenceOf(work, stage);
  const { trials, kills } = await soak(job, reference, {
    ...{ seed, stage, forMs, everyMs, signal },
    onKill: (what, afterMs) => say(`  killed ${what} after ${duration(afterMs / 1000)}`),
    onTrial: (trial) => say(`${trial.trainingSeconds.toFixed(1)} s: ${verdictLine(trial)}`),
  });
  say(`${kills} kills`);
  return trials;
}

async function referenceOf(
  { job, say }: Work,
  { devices, hosts }: Schedule["stage"],
): Promise<ReferenceRun> {
  say("First its reference run, undisturbed ...");
  const reference = await runReference(job, devices * Math.max(1, hosts));
  const { result, trainingSeconds } = reference;
  say(`${result.step} steps in ${duration(trainingSeconds)}: ${result.digest}`);
  return reference;
}

function stageOf({ job, options }: Work): Schedule["stage"] {
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
