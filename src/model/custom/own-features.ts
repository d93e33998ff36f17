// The features of a custom model as inputs of its graph; each feature may be taken once.

import { featuresOf } from "../features.ts";
import { type GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { sequenceOf, vectors } from "../vectors.ts";
import type { CustomSpec } from "./custom-options.ts";
import type { ModelFeatures } from "./define-model.ts";

/** The inputs of a custom model; `left` holds the features that the model has not taken so far. */
export function ownFeatures(
  graph: GraphBuilder,
  spec: CustomSpec,
): ModelFeatures & { readonly left: ReadonlySet<string> } {
  const features = featuresOf(spec);
  const names = features.map(({ name }) => name);
  const left = new Set(names);
  const dims = new Set(spec.tables.map(({ dim }) => dim));
  const dim = spec.dim ?? (dims.size === 1 ? spec.tables[0]?.dim : undefined);
  const taken = (of: readonly string[]) => {
    for (const name of of) {
      if (!names.includes(name)) {
        throw new RangeError(`there is no feature \`${name}\`; there are ${names.join(", ")}`);
      }
      if (left.delete(name)) continue;
      throw new RangeError(
        `the feature \`${name}\` is taken twice: reuse the value that \`vectors\` or \`rows\` returned`,
      );
    }
    if (of.length === 0) throw new RangeError("`of` names no categorical feature");
    const own = new Set(of);
    return (name: string) => own.has(name);
  };
  return {
    dense: graph.dense,
    names,
    tasks: (spec.tasks ?? []).map(({ name }) => name),
    dim,
    left,
    vectors({ first, of = names, dim: width = dim } = {}) {
      if (width === undefined) {
        throw new RangeError(
          "`vectors` needs a `dim`, as the tables have several and the job none",
        );
      }
      if (first !== undefined && sizeOf(first) % width !== 0) {
        throw new RangeError(`\`first\` has ${sizeOf(first)} columns, no multiple of ${width}`);
      }
      const all = vectors(graph, spec, { ...before(first), dim: width, has: taken(of) });
      return reshape(all, [sizeOf(all) / width, width]);
    },
    sequence(name, { dim: width = dim } = {}) {
      taken([name]);
      const { pooling } = features.find((feature) => feature.name === name) ?? {};
      if (pooling !== "none") {
        throw new RangeError(
          `the feature \`${name}\` is no sequence: its \`pooling\` is not "none"`,
        );
      }
      if (width === undefined) {
        throw new RangeError(
          "`sequence` needs a `dim`, as the tables have several and the job none",
        );
      }
      return sequenceOf(graph, spec, { name, dim: width });
    },
    rows({ first, of = names } = {}) {
      const has = taken(of);
      return vectors(graph, spec, { ...before(first), dim: dim ?? 1, keepsWidths: true, has });
    },
  };
}

/** `first`, flattened to a row. */
function before(first: Value | undefined): { readonly first?: Value } {
  return first === undefined ? {} : { first: reshape(first, [sizeOf(first)]) };
}
