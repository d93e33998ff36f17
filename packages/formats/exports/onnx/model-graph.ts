// Translates a model's graph to ONNX: its lookups, then each block by the block's own `translate`.
//
//   dense (B,W)                                 transformed dense features
//   F.rows (n), F.lengths (B), F.weights (n)    of each feature F (bags.ts)
//   F.ids (n)                                   instead of rows, for dynamic ids (rows-of-ids.ts)
//                                               and for raw ids (raw-ids.ts)
//   logits (B,L)                                outputs, one column per label
//   predictions (B,L)                           probability of 1, or the value of a numeric label
//   calibrated (B,L)                            calibrated predictions, if a calibration is stored

import {
  areNumeric,
  featuresOf,
  type Graph,
  InvalidOptionError,
  type Name,
  type Node,
  shapesOf,
  sizeOf,
  type Translation,
  weightedOf,
} from "../../../../internal.ts";
import { type ExportedModel, rowsNameOf } from "../exported-model.ts";
import { type LookedUp, lookUp } from "./bags.ts";
import type { Port } from "./messages.ts";
import { createOperators, type Operators } from "./operators.ts";
import type { FeatureInput } from "./raw-ids.ts";
import { idsPlaceOf } from "./rows-of-ids.ts";

/** A graph that refers by name to the dense parameters and the rows of tables, without them. */
export interface ModelGraph {
  readonly operators: Operators;
  readonly outputs: readonly Port[];
}

/** A feature's lookup, and the position of its output in the graph's nodes. */
interface PlacedFeature extends LookedUp {
  /** Index of its first lookup. */
  readonly lookup: number;
  readonly node: number;
  readonly column: number;
}

/**
 * Translates a model, block by block. `inputs`: one per feature, in the order of features.
 * @throws InvalidOptionError naming what ONNX has no operators for
 */
export function translateModel(model: ExportedModel, inputs: readonly FeatureInput[]): ModelGraph {
  const { graph, checkpoint } = model;
  const operators = createOperators();
  const { dense, nodes } = graph;
  const [width = 0] = dense?.shape ?? [];
  if (dense !== undefined) {
    operators.input({ name: "dense", type: "float32", shape: ["samples", width] });
  }
  let counted: Name | undefined;
  /** The number of samples, (1): the rows of `dense`, or else the length of the first lengths. */
  const samples = (lengths: Name) => {
    counted ??=
      dense === undefined
        ? operators.op("Shape", [lengths])
        : operators.op("Shape", ["dense"], { start: 0, end: 1 });
    return counted;
  };
  const features = placedFeatures(operators, model, inputs, samples);
  const names: Name[] = [];
  for (const [index, node] of nodes.entries()) {
    if (index === dense?.node) {
      names.push("dense");
      continue;
    }
    const featuresOfNode = features.filter((feature) => feature.node === index);
    const lookups = featuresOfNode.map(({ vectors, column }) => ({ name: vectors, column }));
    const { numbers, integers, op } = operators;
    names.push(
      translated(node, checkpoint.job.model.kind, {
        ...{ numbers, integers, op, lookups },
        samples: () => samples(features[0]?.lengths ?? ""),
        x: (input) => inputOf(operators, graph, node, input, names),
        parameter: (name) => name,
        idsOf: (lookup) => features.find((feature) => feature.lookup === lookup)?.ids ?? "",
      }),
    );
  }
  const { labels, outputs } = addOutputs(operators, model, names[graph.output.node] ?? "");
  const port = (name: string): Port => ({ name, type: "float32", shape: ["samples", labels] });
  return { operators, outputs: outputs.map(port) };
}

/** The lookups of all features. */
function placedFeatures(
  operators: Operators,
  model: ExportedModel,
  inputs: readonly FeatureInput[],
  samples: (lengths: Name) => Name,
): PlacedFeature[] {
  const { graph, tables, checkpoint } = model;
  const { job } = checkpoint;
  const weighted = weightedOf(job.data, shapesOf(job.model));
  let lookup = 0;
  return featuresOf(job.model).map((feature, i): PlacedFeature => {
    const table = tables[feature.table];
    const place = graph.places[lookup];
    const input = inputs[i];
    if (table === undefined || place === undefined || input === undefined) {
      throw new RangeError(`No lookup ${lookup}`);
    }
    const { dim, rows } = table.stored.spec;
    const ids = idsPlaceOf(table);
    const at = {
      table: rowsNameOf(table),
      dim,
      rows,
      isWeighted: weighted[i] === true,
      ids,
      input,
    };
    const first = lookup;
    lookup += feature.positions;
    return { ...lookUp(operators, feature, at, samples), ...place, lookup: first };
  });
}

/** The output of a node. */
function translated(node: Node, kind: string, to: Translation): Name {
  if (node.translate !== undefined) return node.translate(to);
  if (node.start !== undefined) {
    const message =
      `Model \`${kind}\` has a block that no operators of ONNX are known for: export a file ` +
      "ending in `.safetensors`, or give the block a `translate`";
    throw new InvalidOptionError("model", message);
  }
  const ordered = to.lookups.toSorted((a, b) => a.column - b.column);
  const names = ordered.map(({ name }) => name);
  const all = to.op("Concat", names, { axis: 1 });
  return to.op("Reshape", [all, to.integers([-1, ...node.shape])]);
}

/** Input i of a node, reshaped as the node expects it. */
function inputOf(
  operators: Operators,
  { nodes }: Graph,
  node: Node,
  input: number,
  names: readonly Name[],
): Name {
  const value = node.inputs[input];
  const from = nodes[value?.node ?? -1];
  if (value === undefined || from === undefined) throw new RangeError(`No input ${input}`);
  const name = names[value.node] ?? "";
  if (`${from.shape}` === `${value.shape}`) return name;
  return operators.op("Reshape", [name, operators.integers([-1, ...value.shape])]);
}

/** Adds the outputs for all labels. Returns their names and the number of labels. */
function addOutputs(to: Operators, { graph, checkpoint, calibration }: ExportedModel, all: Name) {
  const labelled = graph.objectives.filter(({ target }) => target.of === "label");
  const columns = labelled
    .toSorted((a, b) => a.target.column - b.target.column)
    .map(({ logit }) => logit);
  const flat = to.op("Reshape", [all, to.integers([-1, sizeOf(graph.output)])]);
  const logits = to.op("Gather", [flat, to.integers(columns)], { axis: 1 });
  const numeric = areNumeric(checkpoint.job.data);
  to.named("logits", logits);
  to.named("predictions", predicted(to, logits, logits, numeric));
  const outputs = ["logits", "predictions"];
  if (calibration !== undefined) {
    const { tasks } = calibration;
    const row = (values: number[]) => to.numbers([1, values.length], values);
    const scaled = to.op("Mul", [logits, row(tasks.map((one) => one?.scale ?? 1))]);
    const shifted = to.op("Add", [scaled, row(tasks.map((one) => one?.offset ?? 0))]);
    to.named("calibrated", predicted(to, logits, shifted, numeric));
    outputs.push("calibrated");
  }
  return { labels: columns.length, outputs };
}

/** Sigmoid of `scores` for class labels; the logits themselves for numeric labels. */
function predicted(to: Operators, logits: Name, scores: Name, numeric: readonly boolean[]): Name {
  if (!numeric.includes(false)) return logits;
  const probabilities = to.op("Sigmoid", [scores]);
  if (!numeric.includes(true)) return probabilities;
  const flags = to.integers(numeric.map(Number), [1, numeric.length]);
  const isNumber = to.op("Equal", [flags, to.integers([1])]);
  return to.op("Where", [isNumber, logits, probabilities]);
}
