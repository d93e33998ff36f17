// osiris plan --calibrate --learn: measures sets of tables and exchanges on this machine, trains
// cost networks on the times, and writes the networks to a file for --cost-model. FILE.measured
// keeps the measurements, and an interrupted command resumes from it. --verdict measures whether
// plans by such a file are faster than plans by formulas. Without --out, both use the file that
// this machine keeps for its own runs, and --learn ends with --verdict.

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";

import type { CommonOptions } from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { count, percent } from "../../../cli/support/format.ts";
import { constantsFor } from "../../../cli/support/machine.ts";
import { InvalidOptionError, ownCostsPath, verdictSentence } from "../../../internal.ts";
import {
  measureCosts,
  measureVerdict,
  type PolicyMethod,
  trainCostNetworks,
  trainPolicy,
  writeCostNetworks,
  writePolicy,
} from "../index.ts";

/** Options of `--learn`. */
export interface LearningArguments extends CommonOptions {
  readonly devices?: number | "auto";
  readonly hosts: number;
  readonly batch: number;
  readonly samples: number;
  readonly minutes: number;
  readonly seed?: number;
  readonly out?: string;
  readonly policy?: string;
  readonly method?: PolicyMethod;
  readonly turns: number;
  readonly verdict?: boolean;
  readonly sets: number;
  readonly constants?: string;
}

/** Fewest samples with which networks are trained, if the time was up before all were measured. */
const samplesMin = 20;

/** Largest share of the test's variance that a network may leave unexplained without a warning. */
const unexplainedMax = 0.3;

export async function learn(options: LearningArguments): Promise<number> {
  const { batch, samples, minutes, seed = 1, json, turns, hosts } = options;
  const devices = devicesOf(options);
  if (devices % hosts !== 0) {
    throw new InvalidOptionError(
      "--devices",
      `Expected \`--devices\` to be a multiple of the ${hosts} hosts, got \`${devices}\` (number)`,
    );
  }
  // Costs of several hosts get no verdict, so that no machine keeps them for its runs.
  const out = options.out ?? (hosts > 1 ? "costs.safetensors" : ownPath(options));
  const path = `${out}.measured`;
  console.error(`Measuring ${samples} sets of tables and exchanges on ${devices} threads ...`);
  const { costs, machine, isComplete } = await measureCosts({
    ...{ devices, hosts, batchSize: batch, samples, path, seed, secondsMax: 60 * minutes },
    onProgress: tenths((done) => console.error(`  ${percent(done)}`)),
  });
  const least = Math.min(costs.compute.length, costs.exchange.length);
  if (!isComplete) {
    const counts = `${costs.compute.length} sets and ${costs.exchange.length} exchanges`;
    console.error(`The time is up: ${counts} are measured in ${path}; the same command continues.`);
    if (least < samplesMin) return exitCodes.failed;
  }
  const { networks, reports } = await trainCostNetworks(costs, {
    seed,
    onNetwork: (name) => console.error(`Training the network of ${name} ...`),
  });
  const unsure = Object.entries(reports).filter(([, own]) => {
    return own.testMse > unexplainedMax * own.testVariance;
  });
  if (unsure.length > 0) {
    const names = unsure.map(([name]) => name).join(", ");
    console.error(
      `The networks of ${names} explain too little: measure on an idle machine, or more ` +
        "`--samples`, before you plan by these costs.",
    );
  }
  await writeCostNetworks(out, networks, {
    machine: JSON.stringify(machine),
    samples: String(least),
    reports: JSON.stringify(reports),
  });
  if (options.policy !== undefined) {
    console.error("Training a placement policy ...");
    const policy = trainPolicy(costs, networks, { seed, method: options.method, turns });
    await writePolicy(options.policy, policy, { machine: JSON.stringify(machine) });
  }
  if (json) console.log(JSON.stringify({ report: "learn", file: out, machine, reports }));
  else {
    const over = hosts > 1 ? ` on ${hosts} hosts` : "";
    console.log(
      `${out}: costs of ${devices} devices${over} and batches of ${count(batch)} samples`,
    );
    for (const [name, { testMse, testVariance, digest }] of Object.entries(reports)) {
      const error = Math.sqrt(testMse).toPrecision(3);
      const explained = percent(Math.max(0, 1 - testMse / testVariance));
      console.log(
        `  ${name.padEnd(18)} off by ${error} ms in the test, ${explained} explained, ${digest}`,
      );
    }
  }
  const hasVerdict = options.verdict === true || (options.out === undefined && hosts === 1);
  return hasVerdict ? await findVerdict(options) : exitCodes.done;
}

/** Measures plans by learned costs against plans by formulas, and writes the verdict. */
export async function findVerdict(options: LearningArguments): Promise<number> {
  const { out = ownPath(options), sets, seed, json } = options;
  const constants = await constantsFor(options.constants, "auto", (line) => console.error(line));
  console.error(`Measuring plans by learned costs and by formulas for ${sets} sets of tables ...`);
  const found = await measureVerdict({
    ...{ path: out, sets, constants: constants(devicesOf(options)) },
    ...(seed !== undefined && { seed }),
    onSet: (done) => console.error(`  set ${done} of ${sets}`),
  });
  const { verdict, differing } = found;
  if (json) console.log(JSON.stringify({ report: "verdict", file: out, ...found }));
  else {
    const isKept =
      out === ownPath({ ...options, devices: verdict.devices, batch: found.batchSize });
    const runs = isKept ? "runs of this machine plan" : "planning is best";
    console.log(`${out}: on ${count(verdict.devices)} devices ${verdictSentence(verdict)}`);
    console.log(`  ${count(differing)} of ${count(sets)} sets have another plan by these costs`);
    console.log(`  ${runs} by ${verdict.isFaster ? "these costs" : "formulas"}`);
  }
  return exitCodes.done;
}

function devicesOf({ devices: asked = "auto", hosts }: LearningArguments): number {
  return asked === "auto" ? Math.max(2, hosts) : asked;
}

/** The file that this machine keeps for its runs; its folder is made. */
function ownPath(options: LearningArguments): string {
  const path = ownCostsPath({ devices: devicesOf(options), batchSize: options.batch });
  mkdirSync(dirname(path), { recursive: true });
  return path;
}

/** Calls `report` at each tenth of the progress. */
function tenths(report: (done: number) => void): (done: number) => void {
  let reported = 0;
  return (done) => {
    const tenth = Math.floor(10 * done);
    if (tenth > reported) report(tenth / 10);
    reported = Math.max(reported, tenth);
  };
}
