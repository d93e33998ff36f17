// Where the rows of a job rest, by its option `placement`: checks it, and gives the tables and the
// tiers the options that follow from it. It decides no bit.

import type { z } from "zod";
import type { TiersSpec } from "../embedding/tables/tier-options.ts";
import { InvalidOptionError } from "../errors/errors.ts";
import type { ModelSpec } from "../model/options.ts";
import type { PlacementSpec } from "../planner/placement.ts";
import { tableQuanta } from "../planner/shards.ts";
import { expected } from "../ports/check-options.ts";
import type { plannerOptions } from "./job-schema.ts";

/** The part of a job that its placement fits. */
interface PlacedJob {
  readonly placement: PlacementSpec;
  readonly model: ModelSpec;
  readonly tiers: TiersSpec;
  readonly devices: number;
  readonly checkpoint: { readonly partial?: object | undefined };
  readonly planner: z.output<typeof plannerOptions>;
}

/** Whether rows below device memory rest in host memory alone. */
function isInHostMemory({ placement: { kind, servers } }: Pick<PlacedJob, "placement">): boolean {
  return kind === "host" || (kind === "hybrid" && servers === 0);
}

/** The job with the options of tables and tiers that follow from its placement. */
export function withPlacement<Job extends PlacedJob>(job: Job): Job {
  if (!isInHostMemory(job)) return job;
  const tiers = Object.freeze({ ...job.tiers, ssd: "none" as const });
  if (job.placement.kind === "hybrid") return Object.freeze({ ...job, tiers });
  const below = job.model.tables.map((table) => Object.freeze({ ...table, tier: "cached" }));
  return Object.freeze({ ...job, tiers, model: { ...job.model, tables: Object.freeze(below) } });
}

/** @throws InvalidOptionError where the placement is impossible, or contradicts another option */
export function checkPlacement(job: PlacedJob): void {
  const { placement, devices, planner, tiers } = job;
  const { kind, servers } = placement;
  if (tiers.ssd === "none") checkSpilled(job);
  if (kind === "auto" && servers === 0) return;
  if (kind === "servers" && servers === 0) {
    throw expected("placement.servers", 'at least 1 where `placement.kind` is "servers"', servers);
  }
  if (kind !== "servers" && kind !== "hybrid" && servers > 0) {
    throw expected("placement.servers", `0 where \`placement.kind\` is "${kind}"`, servers);
  }
  if (devices !== 0 && servers >= devices) {
    const why = `at most ${devices - 1}, as one of ${devices} devices at least runs samples`;
    throw expected("placement.servers", why, servers);
  }
  const { tables } = job.model;
  const quanta = tables.reduce((sum, table) => sum + table.rowBlocks * tableQuanta(table), 0);
  if (kind === "servers" && servers > quanta) {
    const why = `at most ${quanta}, the parts that the tables can be cut into: a server holds one`;
    throw expected("placement.servers", why, servers);
  }
  const searched = planner.adapt === undefined ? "costs" : "adapt";
  if (planner[searched] !== undefined && planner[searched] !== "formulas") {
    const why = `left out where \`placement.kind\` is "${kind}": formulas plan it`;
    throw expected(`planner.${searched}`, why, planner[searched]);
  }
  if (isInHostMemory(job) && tiers.ssd !== "auto" && tiers.ssd !== "none") {
    throw expected("tiers.ssd", 'left out, or "none", where rows rest in host memory', tiers.ssd);
  }
  if (isInHostMemory(job) && job.checkpoint.partial !== undefined) {
    const why = "left out where rows rest in host memory: they are lost with their process";
    throw expected("checkpoint.partial", why, job.checkpoint.partial);
  }
  const wrong = tables.flatMap((table, i) => wrongIn(table, kind, `model.tables[${i}]`));
  if (wrong.length > 0) throw InvalidOptionError.ofAll(wrong);
}

/** The options of a table that no placement of this kind can follow. */
function wrongIn(
  { sharding, staleness, l2Scope, tier, keep }: ModelSpec["tables"][number],
  kind: PlacementSpec["kind"],
  at: string,
) {
  const where = `where \`placement.kind\` is "${kind}"`;
  const isOf = (...kinds: PlacementSpec["kind"][]) => kinds.includes(kind);
  const refuse = (isWrong: boolean, option: string, why: string, value: unknown) =>
    isWrong ? expected(`${at}.${option}`, `${why} ${where}`, value).problems : [];
  const isCopy = sharding === "data-parallel" && isOf("host", "servers");
  const isWhole = l2Scope === "table" && isOf("host", "servers");
  return [
    ...refuse(isCopy, "sharding", "another scheme, as copies are in device memory,", sharding),
    ...refuse(isWhole, "l2Scope", '"touched" or "decayed"', l2Scope),
    ...refuse(staleness > 0 && kind === "host", "staleness", "0", staleness),
    ...refuse(tier === "cached" && kind === "device", "tier", '"memory"', tier),
    ...refuse(keep === "durable" && kind === "host", "keep", '"spill"', keep),
  ];
}

/** @throws InvalidOptionError where rows in host memory are to outlive its process */
function checkSpilled({ model }: PlacedJob): void {
  const table = model.tables.findIndex(({ keep }) => keep === "durable");
  if (table < 0) return;
  const why = '"spill" where `tiers.ssd` is "none": rows in host memory end with their process';
  throw expected(`model.tables[${table}].keep`, why, "durable");
}
