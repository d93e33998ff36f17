// Machine constants for commands that predict: by name, from a file, or of this machine, which is
// measured on its first use; and the choice of a job's number of devices.

import { readFileSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { type Command, InvalidArgumentError, Option } from "commander";
import { constantsOfDevice } from "../../actors/calibration/machine-constants.ts";
import { constantsOfRun } from "../../actors/threads/kept-constants.ts";
import {
  briefSize,
  chooseDevices,
  countedStatistics,
  type DeviceChoice,
  InputUnusableError,
  InvalidOptionError,
  type JobSpec,
  type MachineConstants,
  machineConstants,
} from "../../internal.ts";
import {
  briefProbing,
  calibrate,
  constantsOf,
  hardwareNames,
  type MachineOptions,
  readHardware,
} from "../../packages/what-if/index.ts";
import { StoreFailedError } from "../../src/errors/errors.ts";
import { withFiles } from "../../src/job/job-files.ts";
import { areKnown, checkConstants, defaultConstants } from "../../src/planner/cost/constants.ts";
import { integerFrom } from "./arguments.ts";
import { plural, shortTime } from "./format.ts";

/** Constants that options can name. */
const named: Readonly<Record<string, MachineConstants>> = { v100: defaultConstants };

/** Adds `--constants`. */
export function withConstants(command: Command): Command {
  const what =
    "machine constants: a file of plan --calibrate, v100, or for plan a kind of machine, such as " +
    "zionex (default: this machine's)";
  return command.addOption(new Option("--constants <FILE>", what).env("OSIRIS_CONSTANTS"));
}

/** Reads a number of devices, or of their threads, or `auto`. */
export function devicesFrom(text: string): number | "auto" {
  if (text === "auto") return text;
  try {
    return integerFrom(1)(text);
  } catch {
    throw new InvalidArgumentError("Expected an integer >= 1, or `auto`.");
  }
}

/** Constants of one device, given how many devices share the machine. */
export type ConstantsFor = (devices: number) => MachineConstants;

/**
 * The constants that the option names; without it this machine's, for the kernels of the job.
 * @throws InputUnusableError where a file has no constants
 */
export async function constantsFor(
  given: string | undefined,
  arithmetic: JobSpec["arithmetic"],
  say: (line: string) => void,
): Promise<ConstantsFor> {
  if (given !== undefined) {
    if (hardwareNames().includes(given) || given.endsWith(".yaml")) {
      const hardware = readHardware(given);
      return (perHost) => constantsOf(hardware, { hosts: 1, perHost });
    }
    const constants = named[given] ?? readConstants(given);
    return () => constants;
  }
  const { constants, path, notKept } = await machineConstants({
    arithmetic,
    measure: (options) => calibrateHere(options, say),
    onMeasure: (reason) => {
      const time = isBrief() ? "briefly" : "for twenty seconds, or some minutes on a busy machine";
      say(`Measuring this machine, ${time}, as ${reason} ...`);
    },
  });
  if (notKept !== undefined)
    say(`The constants of this machine are not kept in ${path}: ${notKept}`);
  return (devices) => constantsOfDevice(constants, devices);
}

/**
 * Makes the runs of this process plan with the constants that the option names; without it, they
 * use the kept or default constants. @throws InputUnusableError where a file has no constants
 */
export function planWith(given: string | undefined): void {
  if (given === undefined) return;
  if (!Object.hasOwn(named, given)) readConstants(given);
  process.env.OSIRIS_CONSTANTS = given; // Planning threads inherit the environment.
}

/** Measures this machine for the planner. */
export function calibrateHere(
  options: MachineOptions,
  say: (line: string) => void,
): Promise<MachineConstants> {
  return calibrate({ ...options, ...measuringHere(say) });
}

/** Options of a measurement of this machine; brief if `OSIRIS_CALIBRATION` is `brief`. */
export function measuringHere(
  say: (line: string) => void,
): Pick<MachineOptions, "size" | "probing" | "onProgress"> {
  const onProgress = tenths((tenth) => say(`  ${tenth}0 %`));
  return { onProgress, ...(isBrief() && { size: briefSize, probing: briefProbing }) };
}

/** @throws InvalidOptionError where the variable has any other value than `brief` or none */
function isBrief(): boolean {
  const { OSIRIS_CALIBRATION: given = "" } = process.env;
  if (given === "" || given === "brief") return given === "brief";
  throw new InvalidOptionError(
    "OSIRIS_CALIBRATION",
    `Expected the variable \`OSIRIS_CALIBRATION\` to be \`brief\` or left out, got \`${given}\``,
  );
}

/** Calls `report` with the completed tenths after every three, but not at the end. */
function tenths(report: (tenth: number) => void): (done: number) => void {
  let shown = 0;
  return (done) => {
    const tenth = Math.floor(10 * done + 1e-9);
    if (tenth < shown + 3 || tenth >= 10) return;
    shown = tenth;
    report(tenth);
  };
}

function readConstants(path: string): MachineConstants {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${reason}`, { cause });
  }
  try {
    return checkConstants(JSON.parse(text));
  } catch (cause) {
    const reason = cause instanceof InvalidOptionError ? cause.message : "it is not valid JSON";
    throw new InputUnusableError(path, `Cannot use the constants ${path}: ${reason}`, { cause });
  }
}

/**
 * The job with directories and patterns replaced by their files, so that the data cache of a run is
 * found. A plan needs no data: a job without its files is returned unchanged.
 */
export async function withExistingFiles(job: JobSpec): Promise<JobSpec> {
  try {
    return await withFiles(job);
  } catch (error) {
    if (error instanceof InputUnusableError || error instanceof StoreFailedError) return job;
    throw error;
  }
}

/** A job with tables and data up to these sizes ends sooner than a measurement of the machine. */
const small = { tableBytes: 256 * 2 ** 20, fileBytes: 64 * 2 ** 20, samples: 500_000 };

/** Whether a job's tables, and its data in all epochs, are small. Data on servers are not. */
async function isSmall(job: JobSpec): Promise<boolean> {
  const { data, model } = job;
  const tableBytes = model.tables.reduce((sum, { rows, dim }) => sum + 4 * rows * dim, 0);
  if (tableBytes > small.tableBytes) return false;
  if (data.kind === "synthetic") return data.samples * data.passes <= small.samples;
  const existing = (await withExistingFiles(job)).data;
  if (existing.kind === "synthetic") return false;
  const sizes = existing.paths.map((path) => statSync(path, { throwIfNoEntry: false })?.size);
  const bytes = sizes.reduce<number>((sum, size) => sum + (size ?? Number.POSITIVE_INFINITY), 0);
  return bytes * data.passes <= small.fileBytes;
}

/**
 * The number of devices of a job whose cluster is started for it; prints the choice and its reason.
 * A machine without constants is measured first, except for a small job, which takes one device.
 */
export async function fastestDevices(
  job: JobSpec,
  constants: string | undefined,
  say: (line: string) => void,
): Promise<number> {
  if (
    constants === undefined &&
    !areKnown(constantsOfRun(job.arithmetic)) &&
    (await isSmall(job))
  ) {
    say("1 device: the job is small, and this machine has not been measured for larger ones");
    return 1;
  }
  const choice = chooseDevices(job, await constantsFor(constants, job.arithmetic, say), {
    cores: availableParallelism(),
    statistics: countedStatistics(await withExistingFiles(job))?.features,
  });
  say(choiceLine(choice));
  return choice.devices;
}

/** A line with the chosen number of devices and the predicted steps. */
export function choiceLine({ devices, predictions }: DeviceChoice): string {
  const steps = predictions.map(({ devices: count, step }) => {
    return `${step === undefined ? "no plan" : shortTime(step)} on ${count}`;
  });
  return `${plural(devices, "device")}: a step is predicted to take ${steps.join(", ")}`;
}
