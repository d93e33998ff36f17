// The decay of all rows of a table, in closed form: each step multiplies every weight by
// 1 - learningRate * l2, which a table of any size takes as one number. Rows are stored as v, and
// their weights are w = share * v, where the share is the product of these factors so far. With
// w' = factor * w - learningRate * g, a row of the batch takes
//
//   v' = v - learningRate / share' * g
//
// and no other row is touched. Weights are as of a dense pass over the table, but for rounding.

import { InvalidOptionError } from "../../errors/errors.ts";
import type { RowRule } from "../../kernels/contract/kernels.ts";
import type { SparseOptimizerSpec, TableSpec } from "./options.ts";
import { rateOf } from "./row-rule.ts";

/** The least share: below it, what is stored could leave the range of float32. */
export const shareLeast = 2 ** -80;

/** The share of what is stored that the weights of one table are. */
export interface RowDecay {
  /** Before step `step`, which counts from 0. A function of the step alone. */
  shareAt(step: number): number;
}

/** The decay of a table; undefined where its rows are stored as they are. */
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

/** The rule for what is stored, of the rule for the weights; `share`: that after the step. */
export function decayedRule(rule: RowRule, share: number): RowRule {
  return { ...rule, l2: 0, learningRate: rule.learningRate / share };
}

/** @throws InvalidOptionError where what is stored would grow too far in `steps` steps */
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
