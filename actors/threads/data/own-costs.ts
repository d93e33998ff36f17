// The learned costs that belong to this machine, each with the verdict of `osiris plan --calibrate
// --verdict`: whether plans by them were measured to be faster than plans by formulas. A submitted
// job without `planner.costs` gets the files and their verdicts written into its record, so that
// all its generations plan by the same costs. Own costs never fail a run: where they do not apply,
// formulas decide and the plan's note says why.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { JobSpec } from "../../../src/job/job.ts";
import { hashOfCosts } from "../../../src/job/job-files.ts";
import { type CostFile, costFilesMax, ownVerdictSchema } from "../../../src/job/job-schema.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { machineConstantsPath, machineKeyOf, machineKeySchema } from "../kept-constants.ts";

const verdictFileSchema = z.strictObject({
  /** The machine on whose threads the plans were measured, and the hash of their file. */
  machine: machineKeySchema,
  sha256: z.string(),
  batchSize: z.int().min(1),
  /** Sets of tables; `differing`: those for which the two plans are not the same. */
  sets: z.int().min(1),
  differing: z.int().min(0),
  verdict: ownVerdictSchema,
});

/** Beside a file of learned costs: its verdict, the machine, and the hash of the costs file. */
export type VerdictFile = z.output<typeof verdictFileSchema>;

/** The verdict as a job records it. */
export type OwnVerdict = VerdictFile["verdict"];

/** A file of learned costs of this machine, as a submitted job records it. */
export type OwnCosts = CostFile & { readonly verdict: OwnVerdict };

/** Least mean gain of a step for which learned costs plan the runs of a machine. */
export const gainMin = 0.02;

/** Path of this user's learned costs for a number of devices and a batch size. */
export function ownCostsPath(of: { readonly devices: number; readonly batchSize: number }): string {
  return join(ownCostsDirectory(), `${of.devices}-${of.batchSize}.safetensors`);
}

function ownCostsDirectory(): string {
  return join(dirname(machineConstantsPath()), "costs");
}

export function verdictPathOf(costs: string): string {
  return `${costs}.verdict.json`;
}

/** The verdict beside a file of costs; or, as a string, why there is none. */
export function readVerdict(costs: string): VerdictFile | string {
  const path = verdictPathOf(costs);
  try {
    return verdictFileSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    const isDamaged = error instanceof SyntaxError || error instanceof z.ZodError;
    return isDamaged ? `${path} is damaged` : `${path} cannot be read`;
  }
}

/**
 * The job with this machine's learned costs for its batches, and their verdicts, where the job
 * leaves the costs to the machine. With constants that are fixed (`OSIRIS_CONSTANTS`), formulas
 * plan.
 */
export function withOwnCosts(job: JobSpec, disk: Disk): JobSpec {
  const { planner, plan, sharding, data } = job;
  const isFixed = (process.env.OSIRIS_CONSTANTS ?? "") !== "";
  const isOpen = planner.costs === undefined && planner.adapt === undefined && plan === undefined;
  if (isFixed || !isOpen || sharding !== "auto") return job;
  const directory = ownCostsDirectory();
  const costs = disk.list(directory).flatMap((name): OwnCosts[] => {
    if (!name.endsWith(`-${data.batchSize}.safetensors`)) return [];
    const file = join(directory, name);
    const found = readVerdict(file);
    if (typeof found === "string" || found.batchSize !== data.batchSize) return [];
    return [{ file, sha256: found.sha256, verdict: found.verdict }];
  });
  if (costs.length === 0) return job;
  return { ...job, planner: { ...planner, costs: costs.slice(0, costFilesMax) } };
}

/** The files of costs that a submission found; undefined: the job has none, or names its own. */
export function ownCostsOf({ planner: { costs } }: JobSpec): OwnCosts[] | undefined {
  if (costs === undefined || costs === "formulas") return undefined;
  const own = costs.flatMap(({ verdict, ...file }) => (verdict ? [{ ...file, verdict }] : []));
  return own.length === 0 ? undefined : own;
}

/** The file for a generation on these hosts, if its verdict holds here; else why formulas plan. */
export function provenCosts(
  own: readonly OwnCosts[],
  hosts: readonly number[],
  arithmetic: JobSpec["arithmetic"],
): OwnCosts | string {
  if (hosts.length > 1) return "this machine's learned costs are proven for one host only";
  const [devices = 1] = hosts;
  const costs = own.find(({ verdict }) => verdict.devices === devices);
  if (costs === undefined) return `this machine has no learned costs for ${devices} devices`;
  const { file, sha256, verdict } = costs;
  if (!verdict.isFaster)
    return `this machine's learned costs gain too little: ${verdictSentence(verdict)}`;
  const beside = readVerdict(file);
  if (typeof beside === "string")
    return `the verdict of this machine's costs is unusable: ${beside}`;
  if (beside.sha256 !== sha256) return `${file} has been learned anew since the job was submitted`;
  const here: Readonly<Record<string, unknown>> = machineKeyOf(arithmetic);
  const other = Object.entries(beside.machine).find(([name, value]) => here[name] !== value);
  if (other !== undefined) return `${file} is of ${other[0]} ${other[1]}, not ${here[other[0]]}`;
  try {
    hashOfCosts(file, sha256);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return costs;
}

/** The measured gain, and what it needs to decide. */
export function verdictSentence({ gain, low, high, isFaster }: OwnVerdict): string {
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
  const how = gain < 0 ? "slower" : "faster";
  const between = `between ${percent(low)} and ${percent(high)} of a step with 95 % confidence`;
  const lacks = isFaster ? "" : `, and not proven to gain ${percent(gainMin)}`;
  return `their plans were measured ${percent(Math.abs(gain))} ${how} than those of the formulas, ${between}${lacks}`;
}
