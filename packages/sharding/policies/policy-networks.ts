// The networks of placement policies: graphs of the blocks that models are built of, with weights,
// a gradient and AdamW. A row is a table, a device, or a state of an episode; networks for any
// number of rows share the weights.
//
// R = rows, K = outputs of a row, N = tables, X = features of a table, E = columns of a vector.

import {
  applyDense,
  backwardEarly,
  backwardLate,
  blocks,
  createDenseState,
  createNetwork,
  type DenseOptimizerSpec,
  dLogitsOf,
  forwardEarly,
  forwardLate,
  type Graph,
  GraphBuilder,
  type GraphNetwork,
  type GraphValue,
  gradientsAt,
  type Kernels,
  keyOf,
  layoutParameters,
  logitsOf,
  type ParameterLayout,
  type Pass,
  parameterIn,
  purposes,
  slicesOf,
  type Tensor,
  vectorsOf,
} from "../../../internal.ts";
import { policyFeatures } from "./table-pool.ts";

/** E: columns of a table's vector. */
export const vectorColumns = 32;

/** A parameter by name, as in files. */
export interface NamedWeights {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** The weights of some graphs with different parameters, and their gradient. */
export class Weights {
  readonly kernels: Kernels;
  readonly layout: ParameterLayout;
  /** All parameters, flat, and their gradient. */
  readonly flat: Tensor;
  readonly gradient: Tensor;
  readonly #kept = new Map<string, RowsNetwork>();

  /**
   * Initialises the weights from the seed. `last`: beginning of the names of parameters that draw
   * their values after all others.
   */
  constructor(kernels: Kernels, graphs: readonly Graph[], seed: number, last?: string) {
    this.kernels = kernels;
    this.layout = layoutParameters(graphs.flatMap(({ layout }) => layout.parameters));
    this.flat = kernels.tensor([this.layout.length]);
    this.gradient = kernels.tensor([this.layout.length]);
    const { parameters } = this.layout;
    const isLast = ({ name }: { readonly name: string }) =>
      last !== undefined && name.startsWith(last);
    let [scale, drawn] = [0, 0];
    const ordered = [...parameters.filter((one) => !isLast(one)), ...parameters.filter(isLast)];
    for (const parameter of ordered) {
      // A bias begins like its weight, as in PyTorch.
      scale = parameter.scale === 0 ? scale : parameter.scale;
      const view = kernels.reshape(this.flat, parameter.shape, parameter.first);
      kernels.uniform(view, keyOf(seed), purposes.policyInit, drawn, scale);
      drawn += parameter.length;
    }
  }

  /** Allocates a network of R rows with the weights of one of the graphs. */
  network(graph: Graph, rows: number): RowsNetwork {
    const name = graph.layout.parameters[0]?.name;
    const first = this.layout.parameters.find((parameter) => parameter.name === name)?.first;
    const range = (of: Tensor) => this.kernels.reshape(of, [graph.layout.length], first);
    return new RowsNetwork(this.kernels, graph, rows, range(this.flat), range(this.gradient));
  }

  /**
   * As `network`, but calls with the same graph and number of rows share one allocation. The caller
   * must read the outputs of a pass before the next pass overwrites them.
   */
  kept(graph: Graph, rows: number): RowsNetwork {
    const key = `${graph.layout.parameters[0]?.name} ${rows}`;
    const found = this.#kept.get(key) ?? this.network(graph, rows);
    this.#kept.set(key, found);
    return found;
  }

  /** A copy of all parameters. */
  named(): NamedWeights[] {
    return this.layout.parameters.map(({ name, shape }) => {
      const view = parameterIn(this.kernels, this.flat, this.layout, name);
      return { name, shape, values: this.kernels.read(view) };
    });
  }

  /**
   * Copies the given values.
   * @throws RangeError where a parameter has no values
   */
  take(weights: readonly NamedWeights[]): void {
    for (const { name } of this.layout.parameters) {
      const found = weights.find((own) => own.name === name);
      if (found === undefined) throw new RangeError(`Expected weights of ${name}, got none`);
      this.kernels.write(parameterIn(this.kernels, this.flat, this.layout, name), found.values);
    }
  }
}

/**
 * Returns a function that updates the weights by one step of AdamW with their gradient, at a share
 * of the learning rate `rate`. Weights are first multiplied by 1 - learning rate * `decay`; a
 * gradient with a norm above `normMax` is clipped to it.
 */
export function adamOver(
  { kernels, layout, flat, gradient }: Weights,
  { rate, decay = 0, normMax }: { rate: number; decay?: number; normMax?: number },
): (share: number) => void {
  const optimizer: DenseOptimizerSpec = {
    ...{ kind: "adam", learningRate: rate, weightDecay: decay },
    ...{ beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
    ...(normMax !== undefined && { clip: { norm: normMax } }),
  };
  const state = createDenseState(kernels, optimizer, layout.length);
  let step = 0;
  return (share) => {
    applyDense(kernels, optimizer, state, layout, flat, gradient, { step, plateau: share });
    step++;
  };
}

/** A graph with memory for R rows, which every pass overwrites. */
export class RowsNetwork {
  readonly #kernels: Kernels;
  readonly #network: GraphNetwork;
  readonly #pass: Pass;

  constructor(kernels: Kernels, graph: Graph, rows: number, flat: Tensor, gradient: Tensor) {
    const flats = [gradient];
    this.#kernels = kernels;
    this.#network = createNetwork({
      ...{ kernels, graph, precision: "float32", samplesMax: rows, flats, flat },
    });
    const slices = slicesOf(0, 1, 1, rows);
    this.#pass = { samples: rows, slices, lengthAt: () => 1, draw: undefined, batch: undefined };
  }

  /**
   * Returns the outputs (R,K), valid until the next pass. `data` (R,·): inputs without a gradient;
   * `sums` (R,E): sums of tables' vectors, where the graph has them.
   */
  forward({ data, sums }: { readonly data?: Tensor; readonly sums?: Tensor }): Tensor {
    const [network, pass] = [this.#network, this.#pass];
    assertDone(forwardEarly(network, data ?? this.#kernels.tensor([0]), pass));
    if (sums !== undefined) this.#kernels.copy(vectorsOf(network, 0, pass.samples).of, sums);
    assertDone(forwardLate(network, pass));
    return logitsOf(network, pass.samples);
  }

  /** Sets the gradient of the weights for the last forward pass, from dOut (R,K). */
  backward(dOut: Tensor): void {
    const [network, pass] = [this.#network, this.#pass];
    this.#kernels.copy(dLogitsOf(network, pass.samples), dOut);
    assertDone(backwardLate(network, pass));
    assertDone(backwardEarly(network, pass));
  }

  /** (R,E): the gradient of `sums` after `backward`. */
  get dSums(): Tensor {
    return gradientsAt(this.#network, 0, this.#pass.samples).of;
  }
}

/** Only blocks that sum over the batches of several devices wait, and policies have none. */
function assertDone(pass: Promise<void> | undefined): void {
  if (pass !== undefined) throw new Error("a pass of a policy network waits for other devices");
}

/** The data (R,·) of a graph that has some. */
export function dataOf({ dense }: GraphBuilder): GraphValue {
  if (dense === undefined) throw new RangeError("Expected a graph with data");
  return dense;
}

/** The sums (R,E) of tables' vectors, which a graph takes as its only lookup. */
export function sumsIn(graph: GraphBuilder): GraphValue {
  const sums = graph.add({ inputs: [], shape: [vectorColumns], hasLookups: true });
  graph.place(0, sums, 0);
  return sums;
}

/**
 * A multilayer perceptron. The weights of a layer with n inputs are initialised uniformly between
 * -1/sqrt(n) and 1/sqrt(n), as in PyTorch. The initialisation of Glorot and Bengio, the default of
 * `linear`, has a wider range, and policies learn worse from it.
 */
export function layers(
  graph: GraphBuilder,
  x: GraphValue,
  of: { readonly name: string; readonly widths: readonly number[]; readonly reluLast?: boolean },
): GraphValue {
  const { name, widths, reluLast = false } = of;
  return widths.reduce((value, outputs, layer) => {
    const relu = reluLast || layer + 1 < widths.length;
    const scale = 1 / Math.sqrt(value.shape.at(-1) ?? 1);
    return blocks.linear(graph, value, { name: `${name}.${layer}`, outputs, relu, scale });
  }, x);
}

/** The graph from the features (N,X) of tables to their vectors (N,E). */
export function vectorGraph(name: string): Graph {
  const graph = new GraphBuilder(policyFeatures);
  const widths = [128, vectorColumns];
  return graph.finish(layers(graph, dataOf(graph), { name, widths, reluLast: true }));
}

/** Returns the vectors (N,E) of tables with these features (N,X). */
export function vectorsBy(weights: Weights, graph: Graph, features: Tensor): Float32Array {
  const network = weights.kept(graph, features.shape[0] ?? 0);
  return weights.kernels.read(network.forward({ data: features }));
}

/** A graph over devices, with the sums of the vectors of their tables as input, for training. */
export class SumsNetwork {
  readonly #kernels: Kernels;
  readonly #vectors: RowsNetwork;
  readonly #rows: RowsNetwork;
  readonly #sums: Tensor;
  readonly #dVectors: Tensor;

  /** Allocates a pass over R devices and N tables. */
  constructor(
    weights: Weights,
    graphs: { readonly vectors: Graph; readonly rows: Graph },
    of: { readonly tables: number; readonly rows: number },
  ) {
    this.#kernels = weights.kernels;
    this.#vectors = weights.network(graphs.vectors, of.tables);
    this.#rows = weights.network(graphs.rows, of.rows);
    this.#sums = weights.kernels.tensor([of.rows, vectorColumns]);
    this.#dVectors = weights.kernels.tensor([of.tables, vectorColumns]);
  }

  /**
   * Computes the outputs (R,K) for the features (N,X) of tables, `places` (R,N): how often a device
   * has a table, and the data (R,·) of the devices. Then sets the gradient of the weights from the
   * outputs' gradient (R,K), which `dOutOf` returns.
   */
  learn(
    given: { readonly features: Tensor; readonly places: Tensor; readonly data?: Tensor },
    dOutOf: (outputs: Float32Array) => Float32Array,
  ): void {
    const kernels = this.#kernels;
    const { features, places, data } = given;
    const vectors = this.#vectors.forward({ data: features });
    const [rows = 0, tables = 0] = places.shape;
    const whole = (of: Tensor, count: number) => kernels.reshape(of, [1, count, vectorColumns]);
    kernels.products(whole(this.#sums, rows), places, whole(vectors, tables), "ab");
    const outputs = this.#rows.forward({ sums: this.#sums, ...(data && { data }) });
    const dOut = kernels.tensor(outputs.shape);
    kernels.write(dOut, dOutOf(kernels.read(outputs)));
    this.#rows.backward(dOut);
    const left = kernels.reshape(places, [1, rows, tables]);
    kernels.products(whole(this.#dVectors, tables), left, whole(this.#rows.dSums, rows), "aTb");
    this.#vectors.backward(this.#dVectors);
  }
}
