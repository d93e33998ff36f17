// AutoShard's policy network (Zha et al., KDD 2022, section 3.3). The state is the output of a
// two-layer LSTM over the vector of the table and the share of tables placed so far. A device is
// represented by the sum of its tables' vectors, its predicted cost and its bytes. The score of a
// device is computed from state, device and their product; the value of the state from the state
// alone.
//
// T = steps, B = episodes in parallel, D = devices, E = columns of a vector, H = columns of states
// and devices (2 E). Rows are by step, then episode.

import { blocks, type Graph, GraphBuilder, type Kernels, reshape } from "../../../../internal.ts";
import type { EpisodeState, KnownPool, Score } from "../episodes.ts";
import { dataOf, layers, type RowsNetwork, vectorColumns, Weights } from "../policy-networks.ts";
import { lstm } from "./lstm.ts";

/** Unit of a device's bytes as input of the network: GiB. */
const bytesUnit = 2 ** 30;

/** Inputs of a row: the table's vector, the placed share; a device's sum, cost and bytes. */
function columnsOf(devices: number): number {
  return vectorColumns + 1 + devices * (vectorColumns + 2);
}

/** The graph of a row: scores of D devices, then the value of the state. */
export function rowGraph(devices: number, episodes: number, continues: boolean): Graph {
  const { concat, concatColumns, mul, repeat, slice } = blocks;
  const graph = new GraphBuilder(columnsOf(devices));
  const row = reshape(dataOf(graph), [1, columnsOf(devices)]);
  let first = 0;
  const next = (shape: readonly number[]) => {
    const count = shape.reduce((product, extent) => product * extent, 1);
    first += count;
    return reshape(slice(graph, row, { first: first - count, count }), shape);
  };
  const [table, placed] = [next([vectorColumns]), next([1])];
  const [sums, numbers] = [next([devices, vectorColumns]), next([devices, 2])];
  const share = layers(graph, placed, { name: "auto.place", widths: [vectorColumns] });
  const memory = { episodes, continues };
  const bottom = lstm(graph, concat(graph, [table, share]), { name: "auto.lstm.0", ...memory });
  const state = lstm(graph, bottom, { name: "auto.lstm.1", ...memory });
  const load = layers(graph, numbers, { name: "auto.device", widths: [vectorColumns] });
  const device = concatColumns(graph, [sums, load]);
  const each = repeat(graph, state, devices);
  const all = concatColumns(graph, [each, device, mul(graph, each, device)]);
  const scores = layers(graph, all, { name: "auto.score", widths: [128, 128, 64, 1] });
  const value = layers(graph, state, { name: "auto.value", widths: [64, 1] });
  return graph.finish(concat(graph, [reshape(scores, [devices]), value]));
}

/** Numbers of tables, episodes and devices of some episodes. */
export interface EpisodeExtent {
  readonly steps: number;
  readonly episodes: number;
  readonly devices: number;
}

/** Scores (T B D) of the devices, and values (T B) of the states. */
export interface AutoOutputs {
  readonly scores: Float32Array;
  readonly values: Float32Array;
}

/** The network, for any numbers of steps, episodes and devices. */
export class AutoNetwork {
  readonly weights: Weights;
  /** The networks of `learn`, by their extents. */
  readonly #learning = new Map<string, RowsNetwork>();

  constructor(kernels: Kernels, seed: number) {
    this.weights = new Weights(kernels, [rowGraph(1, 1, false)], seed, "auto.lstm");
  }

  /**
   * Returns the scores of episodes of tables of the pool, step by step. `seen`: where given, keeps
   * the inputs of all steps, for `pass`.
   */
  player({ policyVectors }: KnownPool, of: EpisodeExtent, seen?: Float32Array): Score {
    const { steps, episodes, devices } = of;
    const { kernels } = this.weights;
    const network = this.weights.network(rowGraph(devices, episodes, true), episodes);
    const columns = columnsOf(devices);
    const data = kernels.tensor([episodes, columns]);
    return (state) => {
      const rows = inputsOf(state, policyVectors, steps, devices);
      seen?.set(rows, state.step * episodes * columns);
      kernels.write(data, rows);
      return outputsOf(kernels.read(network.forward({ data })), devices).scores;
    };
  }

  /** The memory of the inputs of all steps. */
  seen({ steps, episodes, devices }: EpisodeExtent): Float32Array {
    return new Float32Array(steps * episodes * columnsOf(devices));
  }

  /**
   * Computes the outputs of all steps from the inputs that a player saw, then sets the gradient of
   * the weights from the outputs' gradients, which `gradientsOf` returns.
   */
  learn(
    seen: Float32Array,
    { steps, episodes, devices }: EpisodeExtent,
    gradientsOf: (outputs: AutoOutputs) => AutoOutputs,
  ): void {
    const { kernels } = this.weights;
    const rows = steps * episodes;
    const key = `${steps} ${episodes} ${devices}`;
    const network =
      this.#learning.get(key) ?? this.weights.network(rowGraph(devices, episodes, false), rows);
    this.#learning.set(key, network);
    const data = kernels.tensor([rows, columnsOf(devices)]);
    kernels.write(data, seen);
    const outputs = outputsOf(kernels.read(network.forward({ data })), devices);
    const { scores, values } = gradientsOf(outputs);
    const dOut = kernels.tensor([rows, devices + 1]);
    const d = new Float32Array(rows * (devices + 1));
    for (const [row, value] of values.entries()) {
      d.set(scores.subarray(row * devices, (row + 1) * devices), row * (devices + 1));
      d[row * (devices + 1) + devices] = value;
    }
    kernels.write(dOut, d);
    network.backward(dOut);
  }
}

/** The inputs (B,·) of a step. */
function inputsOf(
  { step, tables, sums, costs, held }: EpisodeState,
  vectors: Float32Array,
  steps: number,
  devices: number,
): Float32Array {
  const columns = columnsOf(devices);
  const inputs = new Float32Array(tables.length * columns);
  for (const [episode, table] of tables.entries()) {
    const input = inputs.subarray(episode * columns, (episode + 1) * columns);
    input.set(vectors.subarray(table * vectorColumns, (table + 1) * vectorColumns));
    input[vectorColumns] = step / steps;
    const [first, width] = [episode * devices, devices * vectorColumns];
    input.set(sums.subarray(episode * width, (episode + 1) * width), vectorColumns + 1);
    for (let device = 0; device < devices; device++) {
      const at = vectorColumns + 1 + width + 2 * device;
      input[at] = costs[first + device] ?? 0;
      input[at + 1] = (held[first + device] ?? 0) / bytesUnit;
    }
  }
  return inputs;
}

/** Splits rows of D scores and a value. */
function outputsOf(rows: Float32Array, devices: number): AutoOutputs {
  const isValue = (i: number) => i % (devices + 1) === devices;
  return {
    scores: rows.filter((_, i) => !isValue(i)),
    values: rows.filter((_, i) => isValue(i)),
  };
}
