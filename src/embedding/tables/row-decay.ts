// Lazy L2 decay of all rows of a table, in closed form: each step multiplies every weight by
// factor = 1 - learningRate * l2, so one number describes the decay of a table of any size. Rows
// are stored as v, and their weights are w = share * v, where the share is the product of the
// factors so far. With w' = factor * w - learningRate * g, a row of the batch becomes
//
//   v' = v - learningRate / share' * g
//
// and no other row is touched. Except for rounding, the weights equal those of a dense pass over
// the table at each step.

import { InvalidOptionError } from "../../errors/errors.ts";
import type { RowRule } from "../../kernels/contract/kernels.ts";
import type { SparseOptimizerSpec, TableSpec } from "./options.ts";
import { rateOf } from "./row-rule.ts";

/** The least share: below it, the stored values v could leave the range of float32. */
export const shareLeast = 2 ** -80;

/** The share of one table: the factor from its stored values to its weights. */
export interface RowDecay {
  /** The share before step `step`, which counts from 0. It depends only on the step. */
  shareAt(step: number): number;
}

/** The decay of a table; undefined if its rows are stored as weights. */
export function rowDecayOf(
  optimizer: SparseOptimizerSpec,
  { l2, l2Scope }: Pick<TableSpec, "l2" | "l2Scope">,
): RowDecay | undefined {
  if (l2Scope !== "decayed") return undefined;
  const known = { step: 0, share: 1 };
  return {
    shareAt(step) {
      if (step < known.step) Object.assign(known, { step: 0, share: 1 });
      for (; known.step < step; known.step++) {
        known.share *= 1 - rateOf(optimizer, { step: known.step, plateau: 1 }) * l2;
      }
      return known.share;
    },
  };
}

/** The rule for stored values, from the rule for weights. `share`: the share after the step. */
export function decayedRule(rule: RowRule, share: number): RowRule {
  return { ...rule, l2: 0, learningRate: rule.learningRate / share };
}

/** @throws InvalidOptionError where stored values could exceed float32 within `steps` steps */
export function checkShares(
  optimizer: SparseOptimizerSpec,
  tables: readonly TableSpec[],
  steps: number,
): void {
  for (const [i, table] of tables.entries()) {
    const share = rowDecayOf(optimizer, table)?.shareAt(steps) ?? 1;
    if (share >= shareLeast) continue;
    const message =
      `Expected \`model.tables[${i}].l2\` to leave rows a share of 2^-80 at least over the ` +
      `${steps} steps of the run, got ${table.l2}, which leaves ${share.toExponential(1)}; lower it, ` +
      'the learning rate or the epochs, or set `l2Scope: "table"`';
    throw new InvalidOptionError(`model.tables[${i}].l2`, message);
  }
}
