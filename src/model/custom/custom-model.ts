// A custom model: a module's `build` makes the graph. The graph is checked as thoroughly as the
// options of built-in models, before any device allocates memory for it.

import { resolve } from "node:path";
import { InvalidOptionError } from "../../errors/errors.ts";
import { checkOptions, expected } from "../../ports/check-options.ts";
import { type Graph, GraphBuilder, reshape, sizeOf, type Value } from "../graph/graph.ts";
import { objectivesOf } from "../kinds/multi-task.ts";
import { allowModels } from "./allowed-modules.ts";
import type { CustomSpec } from "./custom-options.ts";
import type { DefinedModel } from "./define-model.ts";
import { type LoadedModule, loadModule, messageOf, UnusableModule } from "./load-module.ts";
import { ownFeatures } from "./own-features.ts";

/** Builds the model's graph. @throws InvalidOptionError: why the module makes none */
export function customGraph(graph: GraphBuilder, spec: CustomSpec): Graph {
  return graphFrom(graph, spec, loaded(spec).definition);
}

/**
 * Checks the model and returns its spec with the hash of its module.
 * @throws InvalidOptionError: why the module, or `model.options`, cannot be used
 */
export function withModule(given: CustomSpec): CustomSpec {
  const spec = { ...given, path: resolve(given.path) };
  const { definition, sha256 } = loaded(spec);
  const make = (): Graph => graphFrom(new GraphBuilder(spec.dense, []), spec, definition);
  const [first, second] = [make(), make()];
  if (textOf(first) !== textOf(second)) {
    throw refusal(spec, "a module whose `build` makes the same graph each time it is called");
  }
  allowModels([spec.path]); // A caller who checks a job has named its module.
  return { ...spec, sha256 };
}

function loaded(spec: CustomSpec): LoadedModule {
  try {
    return loadModule(spec.path, spec.sha256);
  } catch (error) {
    if (error instanceof UnusableModule) throw refusal(spec, error.message);
    throw error;
  }
}

function refusal({ path }: CustomSpec, expectation: string): InvalidOptionError {
  return expected("model.path", expectation, path);
}

function graphFrom(
  graph: GraphBuilder,
  spec: CustomSpec,
  { options: schema, build }: DefinedModel,
): Graph {
  const options = schema === undefined ? noOptions(spec) : checkOptions(schema, spec.options, at);
  const features = ownFeatures(graph, spec);
  let made: Graph;
  try {
    const logit = build(graph, features, options);
    const objectives = spec.tasks && objectivesOf(spec.tasks);
    made = graph.finish(logit, objectives);
    const wrong = wrongLogit(logit, made, spec.tasks?.length ?? 1);
    if (wrong !== undefined) throw refusal(spec, `${returnsLogit}; it returns ${wrong}`);
    made = { ...made, output: reshape(made.output, [objectives?.length ?? 1]) };
  } catch (error) {
    if (error instanceof InvalidOptionError) throw error;
    throw refusal(spec, `${returnsLogit}; it throws: ${messageOf(error)}`);
  }
  const [left] = features.left;
  if (left !== undefined) {
    throw refusal(spec, `a module that takes every feature; it never takes \`${left}\``);
  }
  const wrong = wrongNames(made) ?? wrongShapes(made) ?? unread(made);
  if (wrong !== undefined) throw refusal(spec, wrong);
  return made;
}

const at = "model.options";

/** Checks that no options are given. @throws InvalidOptionError if the module takes none */
function noOptions({ options }: CustomSpec): object {
  const [name] = Object.keys(options);
  if (name === undefined) return options;
  const option = `${at}.${name}`;
  const message = `Expected no option \`${option}\`: the module takes none`;
  throw new InvalidOptionError(option, message);
}

const returnsLogit = "a module whose `build` returns the logit";

/** A description of a return value that is no logit; undefined: it is a logit. */
function wrongLogit(
  value: Partial<Value> | undefined,
  { nodes }: Graph,
  logits: number,
): string | undefined {
  const { node = -1, shape } = value ?? {};
  if (nodes[node] === undefined || !Array.isArray(shape)) return "no value of the graph";
  const size = sizeOf({ shape });
  if (size === logits) return undefined;
  const wanted = logits === 1 ? "one number" : `${logits} numbers, one for each task`;
  return `a value of the shape ${shapeText(shape)}, not ${wanted}`;
}

function wrongNames({ layout: { parameters } }: Graph): string | undefined {
  const names = new Set<string>();
  for (const { name } of parameters) {
    if (names.has(name)) {
      return `a module whose blocks have names of their own; two parameters are \`${name}\``;
    }
    names.add(name);
  }
  return undefined;
}

function wrongShapes({ nodes }: Graph): string | undefined {
  const wrong = nodes.find(({ shape }) => !shape.every((n) => Number.isInteger(n) && n > 0));
  return wrong && `a module whose values have numbers; one has the shape ${shapeText(wrong.shape)}`;
}

/**
 * Describes a block with an output that does not reach the logit: it would be computed but not
 * trained.
 */
function unread({ nodes, output, dense }: Graph): string | undefined {
  const read = new Set(nodes.flatMap(({ inputs }) => inputs.map(({ node }) => node)));
  const left = nodes.findIndex((_, node) => {
    return !read.has(node) && node !== output.node && node !== dense?.node;
  });
  const [node, logit] = [nodes[left], nodes[output.node]];
  if (logit?.needsGradient === false) return `${returnsLogit}; it returns one that cannot learn`;
  if (node === undefined) return undefined;
  const [parameter] = node.parameters ?? [];
  const whose = parameter === undefined ? "" : ` of \`${parameter.name}\``;
  return `a module whose blocks all lead to the logit; nothing reads the output${whose}, ${shapeText(node.shape)}`;
}

function shapeText(shape: readonly number[]): string {
  return `(${shape.join(", ")})`;
}

/** Text of everything in a graph that determines its parameters and their order, for comparison. */
function textOf({ nodes, places, output }: Graph): string {
  return JSON.stringify([nodes, places, output]);
}
