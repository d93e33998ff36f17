// osiris plan JOB: plans where a job's shards lie and predicts its step, or says which changes
// would help where no plan fits; with --calibrate, measures the constants of this machine.

import { writeFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { type Command, InvalidArgumentError, Option } from "commander";
import {
  InputUnusableError,
  InvalidOptionError,
  machineConstants,
  measuredDevices,
  type Scheme,
  schemes,
} from "../../../internal.ts";
import { type LearningArguments, learn } from "../../../packages/sharding/commands/learn-costs.ts";
import { policyMethods } from "../../../packages/sharding/index.ts";
import {
  bytesFrom,
  type CommonOptions,
  collected,
  integerFrom,
  numberFrom0,
  withChanges,
  withCommon,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { loadJob } from "../../support/job-file.ts";
import { calibrateHere, devicesFrom, withConstants } from "../../support/machine.ts";
import { changesOf } from "../../support/what-if.ts";
import {
  comparisonLines,
  comparisonOf,
  type NamedPlan,
  reasonLines,
} from "../../views/plan-comparison.ts";
import { jsonOf, reportOf } from "../../views/plan-report.ts";
import { type PlanningArguments, planFile } from "./plan-file.ts";

interface PlanArguments extends CommonOptions, PlanningArguments, LearningArguments {
  readonly out?: string;
  readonly calibrate?: boolean;
  readonly learn?: boolean;
  readonly whatIf?: readonly string[];
  readonly compare?: readonly string[];
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
    .option("--hosts <H>", "hosts that the devices are spread over evenly", integerFrom(1), 1)
    .option("--memory <BYTES>", "memory of a device: 16GB (default: the constants')", bytesFrom)
    .option(
      "--schemes <LIST>",
      `any of ${schemes.join(",")}, or all (default: as a run cuts each table)`,
      schemesFrom,
    )
    .option("--cache", "let tables lie on slower tiers, behind a cache of their popular rows")
    .option("--pooling-factor <IDS>", "mean ids of every bag (default: as counted)", numberFrom0)
    .option("--curves <FILE>", "miss curves of cached tables, from a run's --json output")
    .option("--plan <FILE>", "assess this plan instead of searching for one")
    .addOption(
      new Option(
        "--from <FILE>",
        "assess this plan, and refuse it where its devices lack memory",
      ).conflicts(["plan", "compare", "costModel"]),
    )
    .addOption(
      new Option(
        "--dry-run",
        "write no file and measure nothing; a machine without constants counts as a small server",
      ).conflicts(["out", "calibrate"]),
    )
    .option("--cost-model <FILE>", "search by the learned costs of --calibrate --learn")
    .option("--seconds <N>", "of --cost-model: stop the search after N seconds", numberFrom0)
    .option("--policy <FILE>", "place by this trained policy; with --learn: train one into it")
    .option("--explain", "say of each table why it lies there, and what other places would cost")
    .option("--what-if <OPTION=VALUE>", "compare with a plan under this change: dim=64", collected)
    .option("--compare <PLANS...>", "compare two plans of the job, by their files")
    .option("--out <FILE>", "write the plan (with --calibrate: the constants) to this file")
    .option("--calibrate", "measure this machine, and print, write or keep its constants")
    .option("--learn", "with --calibrate: measure what cost networks learn from, and train them")
    .option("--batch <N>", "of --learn: samples of a step", integerFrom(8), 2048)
    .option("--samples <N>", "of --learn: sets of tables, and exchanges", integerFrom(20), 2000)
    .option("--minutes <N>", "of --learn: stop measuring after N minutes", numberFrom0, 60)
    .addOption(
      new Option("--method <NAME>", "of --learn --policy: how it learns").choices(policyMethods),
    )
    .option("--turns <N>", "of --learn --policy: rounds of its training", integerFrom(1), 10);
  withCommon(withConstants(withChanges(command)), [
    "plan job.yaml --devices 4",
    "plan job.yaml --dry-run --devices 16 --hosts 2",
    "plan job.yaml --from plan.json --memory 32GB",
    "plan job.yaml --devices 128 --hosts 16 --memory 32GB --schemes all --out plan.json",
    "plan job.yaml --devices auto",
    "plan job.yaml --devices 8 --what-if dim=64",
    "plan job.yaml --compare a.json b.json",
    "plan --calibrate --devices 2 --out constants.json",
    "plan --calibrate --learn --devices 2 --batch 2048 --out costs.safetensors",
    "plan --calibrate --learn --devices 2 --out costs.safetensors --policy policy.safetensors",
    "plan job.yaml --cost-model costs.safetensors --seconds 10",
    "plan job.yaml --cost-model costs.safetensors --policy policy.safetensors",
    "plan job.yaml --constants constants.json",
    "plan job.yaml --devices 8 --constants v100",
  ]).action(async (job: string | undefined, options: PlanArguments) => {
    if (options.calibrate !== true) process.exitCode = await plan(job, options);
    else process.exitCode = await (options.learn === true ? learn(options) : measure(options));
  });
}

async function plan(path: string | undefined, options: PlanArguments): Promise<number> {
  if (path === undefined) {
    throw new InvalidOptionError("job", "Expected a job file to plan, or `--calibrate`");
  }
  const others = await comparedPlans(path, options);
  if (others !== undefined) {
    const { json } = options;
    if (json === true) console.log(JSON.stringify(comparisonOf(others)));
    else for (const line of comparisonLines(path, others)) console.log(line);
    return others.every(({ found }) => found.isFeasible) ? exitCodes.done : exitCodes.failed;
  }
  const { found, constants, source, choice } = await planFile(path, options);
  if (found.isFeasible && options.out !== undefined) writeText(options.out, found.text);
  if (options.json === true) console.log(JSON.stringify(jsonOf(found, constants, source, choice)));
  else {
    for (const line of reportOf(path, found, constants, source, choice)) console.log(line);
    if (options.explain === true) for (const line of reasonLines(found)) console.log(line);
  }
  return found.isFeasible && found.assessment.lacksBytes === 0 ? exitCodes.done : exitCodes.failed;
}

/** The plans to compare, named; undefined: nothing is compared. */
async function comparedPlans(
  path: string,
  options: PlanArguments,
): Promise<NamedPlan[] | undefined> {
  const { compare = [], whatIf = [], set = [] } = options;
  if (compare.length > 0) {
    const [first, second, third] = compare;
    if (first === undefined || second === undefined || third !== undefined) {
      const message = `Expected \`--compare\` to name two plans, got ${compare.length}`;
      throw new InvalidOptionError("--compare", message);
    }
    const of = async (plan: string) => ({
      name: plan,
      ...(await planFile(path, { ...options, plan })),
    });
    return [await of(first), await of(second)];
  }
  if (whatIf.length === 0) return undefined;
  const now = await planFile(path, options);
  const job = await loadJob(path, options);
  const changes = whatIf.flatMap((question) => changesOf(job, question));
  const then = await planFile(path, { ...options, set: [...set, ...changes] });
  return [
    { name: "as it is", ...now },
    { name: whatIf.join(", "), ...then },
  ];
}

/** Measures this machine's constants. Without `--devices` they are also kept for later runs. */
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
