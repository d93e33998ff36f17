// The rules (optimizer, rates) by which a step updates the rows of a slab, one for each shard.
// Equal rules are one object, and equal lists of rules one list, because kernels recognise a list
// that they have prepared by its identity (src/kernels/table/lists.ts).

import type { Slab } from "../../embedding/rows/slab.ts";
import { decayedRule, type RowDecay } from "../../embedding/tables/row-decay.ts";
import { type OptimizerStep, roundedRule, rowRuleOf } from "../../embedding/tables/row-rule.ts";
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

/** The rules of the last step of each slab. */
const last = new WeakMap<Slab, readonly RowRule[]>();

export function rowRulesOf(
  { decays, key, recipe, topology }: RowRulesDevice,
  slab: Slab,
  at: OptimizerStep,
): readonly RowRule[] {
  const before = last.get(slab) ?? [];
  const { sparse } = recipe.optimizer;
  const byPenalty = new Map<number, RowRule>();
  const ruleOf = (l2: number, place: number) => {
    const known = byPenalty.get(l2);
    if (known !== undefined) return known;
    const made = rowRuleOf(sparse, l2, at);
    const old = before[place];
    const rule = old !== undefined && areEqual(old, made) ? old : made;
    byPenalty.set(l2, rule);
    return rule;
  };
  const rules = slab.shards.map(({ table }, place) => {
    const rule = ruleOf(tableOf(topology.input.model.tables, table).l2, place);
    const decay = decays[table];
    const own = decay ? decayedRule(rule, decay.shareAt(at.step + 1)) : rule;
    const isRounded = slab.rowsOf[place]?.precision !== "float32";
    return isRounded ? roundedRule(own, key, table, at.step) : own;
  });
  const isSame = rules.length === before.length && rules.every((rule, i) => rule === before[i]);
  const list = isSame ? before : rules;
  last.set(slab, list);
  return list;
}

/** Whether two rules have the same numbers; a rule with parts of its own equals no other. */
function areEqual(one: RowRule, other: RowRule): boolean {
  const [own, others] = [Object.entries(one), Object.values(other)];
  return own.length === others.length && own.every(([, value], i) => value === others[i]);
}
