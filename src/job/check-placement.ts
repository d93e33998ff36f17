// Checks the placement of a job's tables, with dynamic ids and by a plan; and that stale rows,
// checkpoints in fewer bits, the top-k all-reduce and partial recovery are only used outside
// `mode: "exact"`, which forbids all four.

import type { z } from "zod";
import { InvalidOptionError } from "../errors/errors.ts";
import type { ExchangeSpec } from "../exchange/options.ts";
import { isReduced } from "../exchange/scales.ts";
import type { ModelSpec } from "../model/options.ts";
import { checkCover } from "../planner/assess.ts";
import { lackOf } from "../planner/kept-schemes.ts";
import { type planFileSchema, writePlan } from "../planner/plan-file.ts";
import {
  deviceCount,
  isRowScheme,
  planOfFile,
  quantumColumns,
  rowSchemes,
  tableQuanta,
} from "../planner/shards.ts";
import { expected } from "../ports/check-options.ts";
import type { CheckpointSpec } from "../training/checkpoint/checkpoint-options.ts";
import type { plannerOptions } from "./job-schema.ts";

/** The part of a job that a plan must fit. */
interface PlannedJob {
  readonly model: ModelSpec;
  readonly devices: number;
  readonly exchange: ExchangeSpec;
  readonly plan?: z.output<typeof planFileSchema> | undefined;
}

/** The part of a job that decides whether a run may switch to another plan. */
interface AdaptedJob extends Pick<PlannedJob, "plan"> {
  readonly planner: z.output<typeof plannerOptions>;
  readonly sharding: "auto" | "as-written";
}

/**
 * Dynamic ids are mapped to rows on the device with the whole rows of their blocks, so their rows
 * cannot be split by columns.
 * @throws InvalidOptionError
 */
export function checkDynamic({ model }: { readonly model: ModelSpec }): void {
  const schemes = rowSchemes.map((scheme) => `"${scheme}"`).join(", ");
  const wrong = model.tables.flatMap((table, i) => {
    const { dynamic, idBits, ids, sharding, dedup, staleness } = table;
    if (dynamic === undefined) return [];
    const hasRows = sharding === "auto" || isRowScheme(sharding);
    const wanted = {
      idBits: idBits === 64 || "64",
      ids: ids === "reject" || "left out, as any id may come,",
      sharding: hasRows || `one of ${schemes}, as whole rows lie on one device,`,
      dedup: !dedup || "false, as only the device of the rows knows them,",
      staleness: staleness === 0 || "0, as an id may be new in any step,",
    };
    return Object.entries(wanted).flatMap(([option, why]) => {
      if (why === true) return [];
      const value = table[option as keyof typeof wanted];
      const path = `model.tables[${i}].${option}`;
      return expected(path, `${why} where ids are \`dynamic\``, value).problems;
    });
  });
  if (wrong.length > 0) throw InvalidOptionError.ofAll(wrong);
}

/**
 * Refuses schemes that could cut their tables on no devices. Jobs are checked when they are
 * submitted, not when a record of a job is read: earlier versions placed such tables whole.
 * @throws InvalidOptionError
 */
export function checkSchemes({ model }: { readonly model: ModelSpec }): void {
  const wrong = model.tables.flatMap((table, i) => {
    const lacks = lackOf(table);
    const { sharding, rows, rowBlocks, dim } = table;
    const at = `model.tables[${i}]`;
    if (lacks === "blocks" && rows > 1) {
      const why = `left out, or at least 2, where \`sharding\` is "${sharding}"`;
      return expected(`${at}.rowBlocks`, `${why}, which cuts between row blocks`, rowBlocks)
        .problems;
    }
    if (lacks === undefined) return [];
    const size = lacks === "blocks" ? "one row" : `${dim} columns`;
    const why =
      lacks === "blocks" ? "rows cannot be cut" : `columns are cut in quanta of ${quantumColumns}`;
    return expected(`${at}.sharding`, `another scheme for a table of ${size}, as ${why}`, sharding)
      .problems;
  });
  if (wrong.length > 0) throw InvalidOptionError.ofAll(wrong);
}

/**
 * @throws InvalidOptionError where `planner.adapt` or `planner.costs` would change a placement that
 * the job fixes, or both are given
 */
export function checkAdapt({ planner, plan, sharding }: AdaptedJob): void {
  const { adapt, costs } = planner;
  if (costs !== undefined && costs !== "formulas") {
    if (plan !== undefined) {
      throw expected("planner.costs", "left out, as the job fixes its `plan`", costs);
    }
    if (sharding !== "auto") {
      throw expected("planner.costs", `left out, as \`sharding\` is "${sharding}"`, costs);
    }
    if (adapt !== undefined) {
      const why = "left out, as `planner.adapt` searches by measured formulas";
      throw expected("planner.costs", why, costs);
    }
  }
  if (adapt === undefined) return;
  if (plan !== undefined) {
    throw expected("planner.adapt", "left out, as the job fixes its `plan`", adapt);
  }
  if (sharding !== "auto") {
    throw expected("planner.adapt", `left out, as \`sharding\` is "${sharding}"`, adapt);
  }
}

/** @throws InvalidOptionError where a run of the job cannot follow the plan */
export function checkPlan({ model, devices, exchange, plan: file }: PlannedJob): void {
  if (file === undefined) return;
  const refuse = (why: string) =>
    new InvalidOptionError("plan", `Expected \`plan\` to be one of this job, but ${why}`);
  const plan = planOfFile(file);
  const wrong = checkCover(model.tables, plan);
  if (wrong !== undefined) throw refuse(wrong);
  if (writePlan(plan).sha256 !== file.sha256) {
    throw refuse("its hash is not that of its contents; write it again by `osiris plan --out`");
  }
  const count = deviceCount(plan.devices);
  if (devices !== 0 && devices !== count) {
    throw refuse(`it is for ${count} devices, and \`devices\` is ${devices}`);
  }
  for (const shard of plan.shards) {
    const table = model.tables.find(({ name }) => name === shard.table);
    const { l2Scope, staleness } = table ?? {};
    if (
      table?.dynamic !== undefined &&
      (shard.device === "all" || shard.quanta < tableQuanta(table))
    ) {
      throw refuse(`it does not keep whole rows of ${shard.table} on one device: ids are dynamic`);
    }
    if (staleness === 1 && shard.tier === "cached") {
      throw refuse(
        `it keeps ${shard.table} below memory, but tables with \`staleness\` are in memory`,
      );
    }
    if (l2Scope === "table" && shard.device !== "all") {
      throw refuse(`it splits ${shard.table}, but tables with \`l2Scope: "table"\` are copied`);
    }
    if (table?.dedup === true && shard.device === "all" && isReduced(exchange)) {
      throw refuse(`it copies ${shard.table}, but copies send no rows, which \`exchange\` rounds`);
    }
    if (shard.tier === "cached" && shard.device === "all") {
      throw refuse(`it keeps copies of ${shard.table} below memory, but copies are in memory`);
    }
  }
}

/** The part of a job that depends on its mode. */
interface JobOfMode {
  readonly mode: "exact" | "bounded" | "async";
  readonly slices: number;
  readonly exchange: Pick<ExchangeSpec, "topk" | "dense">;
  readonly model: ModelSpec;
  readonly checkpoint: CheckpointSpec;
}

/** @throws InvalidOptionError where a table of an exact job may be stale */
export function checkStaleness({ mode, model }: JobOfMode): void {
  const table = model.tables.findIndex(({ staleness }) => staleness > 0);
  if (mode !== "exact" || table < 0) return;
  throw expected(
    `model.tables[${table}].staleness`,
    '0 in an exact job, whose steps read the rows of the step before; set `mode: "bounded"` to allow it',
    model.tables[table]?.staleness,
  );
}

/**
 * @throws InvalidOptionError where an exact job stores checkpoints in fewer bits than its weights
 * have
 */
export function checkBits({ mode, checkpoint }: JobOfMode): void {
  if (mode !== "exact" || checkpoint.bits === 32) return;
  const why =
    '32 in an exact job, whose restores bring back every bit; set `mode: "bounded"` to allow less';
  throw expected("checkpoint.bits", why, checkpoint.bits);
}

/** @throws InvalidOptionError where gradients may not be sent late, or have too many groups */
export function checkTopK({ mode, slices, exchange: { topk, dense } }: JobOfMode): void {
  if (topk === undefined) return;
  if (mode === "exact") {
    const why =
      'left out in an exact job, whose steps use their whole gradients; set `mode: "bounded"` to allow it';
    throw expected("exchange.topk", why, topk);
  }
  if (dense !== "float32") {
    throw expected("exchange.dense", "`float32` with `exchange.topk`, which sends bfloat16", dense);
  }
  const { groups = 1 } = topk;
  if (groups > slices) {
    throw expected("exchange.topk.groups", `at most \`slices\`, ${slices}`, groups);
  }
}

/** @throws InvalidOptionError where partial recovery is not allowed, or not possible */
export function checkPartial({ mode, checkpoint, model }: JobOfMode): void {
  const { partial } = checkpoint;
  if (partial === undefined) return;
  const refuse = (why: string) => expected("checkpoint.partial", `left out ${why}`, partial);
  if (mode === "exact") {
    throw refuse(
      'in an exact job, whose rows all have the state of one step; set `mode: "bounded"` to allow it',
    );
  }
  const other = model.tables.find(
    ({ tier, dynamic }) => tier === "cached" || dynamic !== undefined,
  );
  if (other !== undefined)
    throw refuse(`where a table (${other.name}) is cached, or has dynamic ids`);
  if ((partial.pls === undefined) !== (partial.failureSteps === undefined)) {
    throw expected("checkpoint.partial", "`pls` and `failureSteps`, or neither", partial);
  }
}
