// The rules (optimizer, rates) by which a step updates the rows of a slab, one for each shard.
// Equal rules are one object, and equal lists of rules one list, because kernels recognise a list
// that they have prepared by its identity (src/kernels/table/lists.ts).

import type { Slab } from "../../embedding/rows/slab.ts";
import { decayedRule, type RowDecay } from "../../embedding/tables/row-decay.ts";
import {
  asBefore,
  type OptimizerStep,
  roundedRule,
  rowRuleOf,
} from "../../embedding/tables/row-rule.ts";
import type { RowRule } from "../../kernels/contract/kernels.ts";
import type { Key } from "../../ports/random.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import type { Recipe } from "./device-state.ts";

/** The part of a device that the rules need. */
export interface RowRulesDevice {
  readonly topology: Topology;
  readonly recipe: Recipe;
  readonly key: Key;
  /** Decay of each table; undefined where stored rows are the weights. */
  readonly decays: readonly (RowDecay | undefined)[];
}

/**
 * The rules of the last step by slab, where neither rounding nor decay changes them: a step whose
 * rule without a penalty equals `base` has the same rules.
 */
const last = new WeakMap<Slab, { readonly base: RowRule; readonly rules: readonly RowRule[] }>();

export function rowRulesOf(
  { decays, key, recipe, topology }: RowRulesDevice,
  slab: Slab,
  at: OptimizerStep,
): readonly RowRule[] {
  const { sparse } = recipe.optimizer;
  const known = last.get(slab);
  const base = asBefore(rowRuleOf(sparse, 0, at), known?.base);
  if (known?.base === base) return known.rules;
  const byPenalty = new Map<number, RowRule>();
  let isSteady = true;
  const rules = slab.shards.map(({ table }, place) => {
    const { l2 } = tableOf(topology.input.model.tables, table);
    const rule = byPenalty.get(l2) ?? rowRuleOf(sparse, l2, at);
    byPenalty.set(l2, rule);
    const decay = decays[table];
    const own = decay ? decayedRule(rule, decay.shareAt(at.step + 1)) : rule;
    const isRounded = slab.rowsOf[place]?.precision !== "float32";
    isSteady &&= decay === undefined && !isRounded;
    return isRounded ? roundedRule(own, key, table, at.step) : own;
  });
  if (isSteady) last.set(slab, { base, rules });
  return rules;
}
