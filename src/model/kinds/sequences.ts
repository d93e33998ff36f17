// Models with layers over the ordered ids of a feature: DIN (Zhou et al., arXiv 1706.06978), by
// target attention, and BST (Chen et al., arXiv 1905.06874), by transformer blocks over the ids and
// a target. A top MLP takes the pooled sequences, the dense features and all other vectors.

import { concat } from "../blocks/concat.ts";
import { mlp } from "../blocks/mlp.ts";
import { behaviorTransformer } from "../blocks/sequences/behavior-transformer.ts";
import type { Sequence } from "../blocks/sequences/sequence-mask.ts";
import { targetAttention } from "../blocks/sequences/target-attention.ts";
import { featuresOf } from "../features.ts";
import type { GraphBuilder, Value } from "../graph/graph.ts";
import { sequenceOf, vectors } from "../vectors.ts";
import type { SequenceSpec } from "./sequences-options.ts";

/** Builds a DIN or BST. Returns the logit (1). */
export function sequenceBlocks(graph: GraphBuilder, spec: SequenceSpec): Value {
  const { top, dropout, batchNorm } = spec;
  const widths = { dim: spec.dim ?? 0, keepsWidths: spec.dim === undefined };
  const targets = once((name) => {
    return vectors(graph, spec, { ...widths, has: (feature) => feature === name });
  });
  const sequences = once((name) => sequenceOf(graph, spec, { ...widths, name }));
  const pooled = pooledSequences(graph, spec, targets.of, sequences.of);
  const others = featuresOf(spec).filter(({ name }) => !targets.has(name) && !sequences.has(name));
  const rest = new Set(others.map(({ name }) => name));
  const first = graph.dense;
  const has = (feature: string) => rest.has(feature);
  const beside =
    rest.size === 0 ? first : vectors(graph, spec, { ...(first && { first }), ...widths, has });
  const all = concat(graph, [...(beside ? [beside] : []), ...targets.all(), ...pooled]);
  const activation = spec.kind === "din" ? spec.activation : undefined;
  return mlp(graph, all, {
    name: "top",
    widths: top,
    dropout,
    hasBatchNorm: batchNorm,
    activation,
  });
}

/** Pools each pair of a target and a sequence to one vector. */
function pooledSequences(
  graph: GraphBuilder,
  spec: SequenceSpec,
  targetOf: (name: string) => Value,
  sequenceOfName: (name: string) => Sequence,
): Value[] {
  if (spec.kind === "din") {
    const { activation = "relu" } = spec;
    return spec.attention.map(({ target, sequence, hidden, softmax }, i) => {
      const options = { name: `attention.${i}`, hidden, softmax, activation };
      return targetAttention(graph, targetOf(target), sequenceOfName(sequence), options);
    });
  }
  return spec.transformers.map(({ target, sequence, ...own }, i) => {
    const vector = targetOf(target);
    const hidden = own.hidden ?? vector.shape[0] ?? 0;
    const options = { ...own, name: `transformers.${i}`, hidden, dropout: spec.dropout };
    return behaviorTransformer(graph, vector, sequenceOfName(sequence), options);
  });
}

/** Memoises `make` by name. */
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
