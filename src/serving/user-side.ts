// Divides a model's graph for ranking: the part that depends only on the user is computed once, the
// rest for each candidate.
//
//   the user's features ──▶ early nodes, for one sample ──▶ copied to all ──┐
//   candidates' features ───────────────────────────────────────────────────┴▶ later nodes
//
// A node is early if all its inputs, direct and indirect, belong to the user. The user's values
// that later nodes read are copied to the row of each candidate: outputs of early nodes, and
// vectors of lookups.

import type { Graph } from "../model/graph/graph.ts";
import { sizeOf } from "../model/graph/graph.ts";
import { type LookupSet, lookupSet, type ServedLookups } from "./lookups.ts";

export interface NodeColumns {
  readonly node: number;
  readonly column: number;
  readonly columns: number;
}

export interface UserSide {
  readonly ofUser: LookupSet;
  readonly others: LookupSet;
  /** By lookup of the model: whether it belongs to the user. */
  readonly isLookupOfUser: readonly boolean[];
  /** Nodes to run for one sample, and nodes to run for each candidate, in graph order. */
  readonly early: readonly number[];
  readonly later: readonly number[];
  /** Columns that are copied from the first row to all rows. */
  readonly copied: readonly NodeColumns[];
}

/**
 * Divides the graph. `isOfUser`: by feature, whether it belongs to the user; `isDenseOfUser`: the
 * same for the dense features.
 */
export function userSideOf(
  graph: Graph,
  { lookups }: ServedLookups,
  isOfUser: readonly boolean[],
  isDenseOfUser: boolean,
): UserSide {
  const ofUser = lookups.filter(({ feature }) => isOfUser[feature] === true);
  const others = lookups.filter(({ feature }) => isOfUser[feature] !== true);
  const mixed = new Set(others.map(({ node }) => node));
  const isEarly: boolean[] = [];
  const isLookupOfUser = lookups.map(({ feature }) => isOfUser[feature] === true);
  for (const [node, { inputs, lengthsOf }] of graph.nodes.entries()) {
    const isInput = node === graph.dense?.node;
    const own = isInput ? isDenseOfUser : inputs.every((input) => isEarly[input.node] === true);
    const isOfOthers = lengthsOf !== undefined && isLookupOfUser[lengthsOf] !== true;
    isEarly.push(own && !isOfOthers && !mixed.has(node));
  }
  const nodes = [...graph.nodes.keys()];
  const later = nodes.filter((node) => isEarly[node] !== true);
  const read = new Set(
    later.flatMap((node) => {
      return (graph.nodes[node]?.inputs ?? []).map((input) => input.node);
    }),
  );
  read.add(graph.output.node);
  const whole = nodes.flatMap((node): NodeColumns[] => {
    const isCopied = isEarly[node] === true && read.has(node);
    const spec = graph.nodes[node];
    return isCopied && spec !== undefined ? [{ node, column: 0, columns: sizeOf(spec) }] : [];
  });
  const set = lookupSet(ofUser);
  const vectors = set.runs.filter(({ node }) => isEarly[node] !== true);
  return {
    ofUser: set,
    others: lookupSet(others),
    isLookupOfUser,
    early: nodes.filter((node) => isEarly[node] === true),
    later,
    copied: [...whole, ...vectors.map(({ node, column, columns }) => ({ node, column, columns }))],
  };
}
