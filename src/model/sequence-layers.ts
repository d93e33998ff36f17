// Models whose layers work on the ordered ids of a feature: DIN (Zhou et al., arXiv 1706.06978), by
// attention of a target; and a top MLP over what becomes of the sequences, beside the dense
// features and all other vectors.

import { mlp } from "./blocks/mlp.ts";
import { targetAttention } from "./blocks/sequences/target-attention.ts";
import { behindEachOther } from "./blocks/side-by-side.ts";
import { featuresOf } from "./features.ts";
import type { GraphBuilder, Value } from "./graph/graph.ts";
import type { SequenceSpec } from "./options/sequence-options.ts";
import { sequenceOf, vectors } from "./vectors.ts";

/** The blocks of a model of sequences. Returns the logit (1). */
export function sequenceBlocks(graph: GraphBuilder, spec: SequenceSpec): Value {
  const { attention, top, dropout, batchNorm } = spec;
  const widths = { dim: spec.dim ?? 0, keepsWidths: spec.dim === undefined };
  const targets = once((name) => {
    return vectors(graph, spec, { ...widths, has: (feature) => feature === name });
  });
  const sequences = once((name) => sequenceOf(graph, spec, { ...widths, name }));
  const pooled = attention.map(({ target, sequence, hidden, softmax }, i) => {
    const options = { name: `attention.${i}`, hidden, softmax };
    return targetAttention(graph, targets.of(target), sequences.of(sequence), options);
  });
  const others = featuresOf(spec).filter(({ name }) => !targets.has(name) && !sequences.has(name));
  const rest = new Set(others.map(({ name }) => name));
  const first = graph.dense;
  const has = (feature: string) => rest.has(feature);
  const beside =
    rest.size === 0 ? first : vectors(graph, spec, { ...(first && { first }), ...widths, has });
  const all = behindEachOther(graph, [...(beside ? [beside] : []), ...targets.all(), ...pooled]);
  return mlp(graph, all, { name: "top", widths: top, dropout, hasBatchNorm: batchNorm });
}

/** Makes a value of each name, once, however often it is asked for. */
function once<T>(make: (name: string) => T) {
  const made = new Map<string, T>();
  return {
    of(name: string): T {
      const own = made.get(name) ?? make(name);
      made.set(name, own);
      return own;
    },
    has: (name: string) => made.has(name),
    all: () => [...made.values()],
  };
}
