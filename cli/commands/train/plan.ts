// osiris plan JOB: which shard would go where, what that costs, and what would help where nothing
// fits; with --calibrate, the constants that say what this machine can do.

import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { type Command, InvalidArgumentError } from "commander";
import { z } from "zod";
import {
  chooseDevices,
  countedStatistics,
  InputUnusableError,
  InvalidOptionError,
  type MissPoint,
  machineConstants,
  measuredDevices,
  measuredGroups,
  planJob,
  resolveJob,
  type Scheme,
  schemes,
} from "../../../index.ts";
import {
  bytesFrom,
  type ChangeArguments,
  type CommonOptions,
  integerFrom,
  numberFrom0,
  withChanges,
  withCommon,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { loadJob } from "../../support/job-file.ts";
import { calibrateHere, constantsFor, devicesFrom, withConstants } from "../../support/machine.ts";
import { jsonOf, reportOf } from "../../views/plan-report.ts";

interface PlanArguments extends CommonOptions, ChangeArguments {
  readonly devices?: number | "auto";
  readonly hosts: number;
  readonly memory?: number;
  readonly schemes?: readonly Scheme[];
  readonly cache?: boolean;
  readonly poolingFactor?: number;
  readonly constants?: string;
  readonly plan?: string;
  readonly curves?: string;
  readonly out?: string;
  readonly calibrate?: boolean;
}

/** Share of this machine's memory that calibration gives to devices. */
const memoryShare = 0.75;

/** Adds the command. */
export function addPlan(program: Command): void {
  const command = program
    .command("plan")
    .argument("[job]", "job file, as for train")
    .description("show which shard would go where and what a step would cost; nothing is trained")
    .option(
      "--devices <N>",
      "devices of all hosts, or auto: the fastest (default: the job's, else auto)",
      devicesFrom,
    )
    .option("--hosts <H>", "hosts that they are spread over evenly", integerFrom(1), 1)
    .option("--memory <BYTES>", "memory of a device: 16GB (default: the constants')", bytesFrom)
    .option(
      "--schemes <LIST>",
      `any of ${schemes.join(",")}, or all (default: as a run cuts each table)`,
      schemesFrom,
    )
    .option("--cache", "tables may rest below memory, behind a cache of their popular rows")
    .option("--pooling-factor <IDS>", "mean ids of every bag (default: as counted)", numberFrom0)
    .option("--curves <FILE>", "what a run counted of its cached tables: its --json output")
    .option("--plan <FILE>", "assess this plan instead of searching one")
    .option("--out <FILE>", "write the plan (with --calibrate: the constants) to this file")
    .option("--calibrate", "measure this machine, and print, write or keep its constants");
  withCommon(withConstants(withChanges(command)), [
    "plan job.yaml --devices 4",
    "plan job.yaml --devices 128 --hosts 16 --memory 32GB --schemes all --out plan.json",
    "plan job.yaml --devices auto",
    "plan --calibrate --devices 2 --out constants.json",
    "plan job.yaml --constants constants.json",
    "plan job.yaml --devices 8 --constants v100",
  ]).action(async (job: string | undefined, options: PlanArguments) => {
    process.exitCode =
      options.calibrate === true ? await measure(options) : await plan(job, options);
  });
}

async function plan(path: string | undefined, options: PlanArguments): Promise<number> {
  if (path === undefined) {
    throw new InvalidOptionError("job", "Expected a job file to plan, or `--calibrate`");
  }
  const job = resolveJob(await loadJob(path, { set: options.set, seed: options.seed }));
  const { schemes: allowed, cache, poolingFactor, memory } = options;
  const counted = countedStatistics(job);
  const ikjt = counted && (await measuredGroups(job));
  const ways = {
    ...{ schemes: allowed, cache, poolingFactor, statistics: counted?.features, ikjt },
    curves: options.curves === undefined ? undefined : readCurves(options.curves),
  };
  const say = (line: string) => console.error(line);
  const ofMachine = await constantsFor(options.constants, job.arithmetic, say);
  const constantsOf = (devices: number) => {
    const constants = ofMachine(devices);
    return memory === undefined ? constants : { ...constants, memoryBytes: memory };
  };
  const { devices: asked = job.devices || "auto", hosts } = options;
  const isChosen = asked === "auto" && hosts === 1 && options.plan === undefined;
  const choice = isChosen
    ? chooseDevices(job, constantsOf, { ...ways, cores: availableParallelism() })
    : undefined;
  const devices = devicesOf(asked, hosts);
  const constants = constantsOf(choice?.devices ?? devices.perHost);
  const given =
    options.plan === undefined ? undefined : { text: readText(options.plan), path: options.plan };
  const found = choice?.found ?? planJob(job, { ...ways, devices, constants, given });
  const source = { samples: counted?.samples, poolingFactor, data: job.data, ikjt };
  if (found.isFeasible && options.out !== undefined) writeText(options.out, found.text);
  if (options.json === true) console.log(JSON.stringify(jsonOf(found, constants, source, choice)));
  else for (const line of reportOf(path, found, constants, source, choice)) console.log(line);
  return found.isFeasible ? exitCodes.done : exitCodes.failed;
}

/** Measures this machine. Without `--devices` and `--out` the result is also kept. */
async function measure({ devices, memory, out, json }: PlanArguments): Promise<number> {
  const constants =
    devices === undefined || devices === "auto"
      ? (await machineConstants({ isRenewed: true, measure: calibrateHere })).constants
      : await calibrateHere({
          devices,
          memoryBytes: memory ?? Math.floor((memoryShare * totalmem()) / devices),
          source: `${cpus()[0]?.model.trim() ?? "this machine"}, ${devices} threads`,
          stepsOn: [...new Set([...measuredDevices(availableParallelism()), devices])],
        });
  if (out !== undefined) writeText(out, `${JSON.stringify(constants, null, 2)}\n`);
  if (json === true) console.log(JSON.stringify({ report: "calibrate", constants }));
  else if (out === undefined) console.log(JSON.stringify(constants, null, 2));
  else console.log(`${out}: the constants of ${constants.source}`);
  return exitCodes.done;
}

function devicesOf(asked: number | "auto", hosts: number) {
  const all = asked === "auto" ? Math.max(2, hosts) : asked;
  if (all % hosts === 0) return { hosts, perHost: all / hosts };
  throw new InvalidOptionError(
    "--devices",
    `Expected \`--devices\` to be a multiple of the ${hosts} hosts, got \`${all}\` (number)`,
  );
}

const curvesSchema = z.object({
  tiers: z.array(
    z.object({
      table: z.string(),
      curve: z.array(z.object({ rows: z.number(), missRatio: z.number().min(0).max(1) })),
    }),
  ),
});

/** The curves of the last line that has some: of the events of a run, its result. */
function readCurves(path: string): Map<string, MissPoint[]> {
  for (const line of readText(path).trimEnd().split("\n").reverse()) {
    const found = curvesSchema.safeParse(parsed(line));
    if (found.success) return new Map(found.data.tiers.map(({ table, curve }) => [table, curve]));
  }
  const wanted = "none of its lines is a result with `tiers`, as `osiris train --json` prints it";
  throw new InputUnusableError(path, `Cannot use the curves ${path}: ${wanted}`);
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${reason}`, { cause });
  }
}

function writeText(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot write ${path}: ${reason}`, { cause });
  }
}

function schemesFrom(text: string): Scheme[] {
  if (text === "all") return [...schemes];
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.find((name) => !schemes.some((scheme) => scheme === name));
  if (unknown === undefined) return schemes.filter((scheme) => names.includes(scheme));
  throw new InvalidArgumentError(`Expected \`all\` or any of ${schemes.join(", ")}.`);
}
