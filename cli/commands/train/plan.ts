// osiris plan JOB: places a job's shards and predicts its step time, or lists the changes that
// would help where no plan fits; with --calibrate, measures the constants of this machine.

import { writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import { type Command, InvalidArgumentError, Option } from "commander";
import {
  InputUnusableError,
  InvalidOptionError,
  machineConstants,
  measuredDevices,
  memoryOfProcess,
  placementKinds,
  type RateOptions,
  type Scheme,
  schemes,
} from "../../../internal.ts";
import {
  findVerdict,
  type LearningArguments,
  learn,
} from "../../../packages/sharding/commands/learn-costs.ts";
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

export function addPlan(program: Command): void {
  const command = program
    .command("plan")
    .argument("[job]", "job file, as for train")
    .description("plan the placement of a job's tables, and predict the time of a step")
    .option(
      "--devices <N>",
      "devices of all hosts together, or auto: the fastest number (default: the job's, else auto)",
      devicesFrom,
    )
    .option("--hosts <H>", "hosts, each with an equal share of the devices", integerFrom(1), 1)
    .option(
      "--memory <BYTES>",
      "memory of each device, such as 16GB (default: from the machine constants)",
      bytesFrom,
    )
    .option(
      "--schemes <LIST>",
      `sharding schemes to consider: ${schemes.join(",")}, or all (default: those of a run)`,
      schemesFrom,
    )
    .addOption(
      new Option("--placement <KIND>", "where rows rest (default: as the job says)").choices(
        placementKinds,
      ),
    )
    .option("--servers <N>", "devices that hold rows and run no samples", integerFrom(0))
    .option("--cache", "let the plan keep tables in slower tiers, with their popular rows cached")
    .option(
      "--pooling-factor <N>",
      "assume N ids in every bag (default: as counted in the data)",
      numberFrom0,
    )
    .option(
      "--curves <FILE>",
      "use the miss curves of cached tables in this --json output of a run",
    )
    .option("--plan <FILE>", "assess this plan instead of searching for one")
    .addOption(
      new Option(
        "--from <FILE>",
        "as --plan, but fail if the plan does not fit the memory of its devices",
      ).conflicts(["plan", "compare", "costModel"]),
    )
    .addOption(
      new Option(
        "--dry-run",
        "write no file and measure nothing; without constants of this machine, assume a small server",
      ).conflicts(["out", "calibrate"]),
    )
    .option(
      "--cost-model <FILE>",
      "search with the learned costs in this file of --calibrate --learn",
    )
    .option("--seconds <N>", "with --cost-model: stop the search after N seconds", numberFrom0)
    .option(
      "--policy <FILE>",
      "place tables by this trained policy; with --learn: train a policy, and write it here",
    )
    .option("--explain", "explain the placement of each table, with the costs of alternatives")
    .option(
      "--what-if <OPTION=VALUE>",
      "compare with the plan after this change, such as dim=64; may be repeated",
      collected,
    )
    .option("--compare <PLANS...>", "compare the plans of the job in two files")
    .option("--out <FILE>", "write the plan (with --calibrate: the constants) to this file")
    .option(
      "--calibrate",
      "measure this machine's constants; without --devices, keep them for later runs",
    )
    .option(
      "--learn",
      "with --calibrate: measure the times of table sets and exchanges, and train cost networks",
    )
    .option(
      "--verdict",
      "with --calibrate: measure whether plans by learned costs (--out, or this machine's) are faster than by formulas; --learn without --out does so at its end",
    )
    .option("--sets <N>", "with --verdict: table sets whose plans are measured", integerFrom(4), 24)
    .option("--batch <N>", "with --learn: samples of a batch", integerFrom(8), 2048)
    .option(
      "--samples <N>",
      "with --learn: table sets to measure, and as many exchanges",
      integerFrom(20),
      2000,
    )
    .option("--minutes <N>", "with --learn: stop measuring after N minutes", numberFrom0, 60)
    .addOption(
      new Option("--method <NAME>", "with --learn --policy: training method of the policy").choices(
        policyMethods,
      ),
    )
    .option(
      "--turns <N>",
      "with --learn --policy: rounds of the policy's training",
      integerFrom(1),
      10,
    );
  withCommon(withConstants(withChanges(command)), [
    "plan job.yaml --devices 4",
    "plan job.yaml --dry-run --devices 16 --hosts 2",
    "plan job.yaml --from plan.json --memory 32GB",
    "plan job.yaml --devices 128 --hosts 16 --memory 32GB --schemes all --out plan.json",
    "plan job.yaml --devices auto",
    "plan job.yaml --devices 8 --what-if dim=64",
    "plan job.yaml --devices 4 --placement servers --servers 2",
    "plan job.yaml --compare a.json b.json",
    "plan --calibrate --devices 2 --out constants.json",
    "plan --calibrate --learn --devices 2 --batch 2048",
    "plan --calibrate --verdict --devices 2 --batch 2048",
    "plan --calibrate --learn --devices 2 --batch 2048 --out costs.safetensors",
    "plan --calibrate --learn --devices 2 --out costs.safetensors --policy policy.safetensors",
    "plan job.yaml --cost-model costs.safetensors --seconds 10",
    "plan job.yaml --cost-model costs.safetensors --policy policy.safetensors",
    "plan job.yaml --constants constants.json",
    "plan job.yaml --devices 8 --constants v100",
  ]).action(async (job: string | undefined, options: PlanArguments) => {
    if (options.calibrate !== true) process.exitCode = await plan(job, options);
    else if (options.learn === true) process.exitCode = await learn(options);
    else
      process.exitCode = await (options.verdict === true ? findVerdict(options) : measure(options));
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
  const calibrated = (own: RateOptions) => calibrateHere(own, (line) => console.error(line));
  const constants =
    devices === undefined || devices === "auto"
      ? (await machineConstants({ isRenewed: true, measure: calibrated })).constants
      : await calibrated({
          devices,
          memoryBytes: memory ?? Math.floor((memoryShare * memoryOfProcess()) / devices),
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
