// DreamShard's policy network (Zha et al., NeurIPS 2022, section 3.3): scores the devices for the
// next table. A device is represented by the sum of its tables' vectors and by its costs, as
// predicted by the cost network.
//
// N = tables of a task, X = features of a table, E = columns of a vector, D = devices, R = devices
// of all steps of all episodes.

import {
  blocks,
  type Graph,
  GraphBuilder,
  type Kernels,
  type Tensor,
} from "../../../../internal.ts";
import { deviceCostNames } from "../cost-model.ts";
import { choiceLoss, probabilities, type Score } from "../episodes.ts";
import {
  dataOf,
  layers,
  SumsNetwork,
  sumsIn,
  vectorColumns,
  vectorGraph,
  vectorsBy,
  Weights,
} from "../policy-networks.ts";

/** The graphs of the policy: of tables, and of devices. */
export function policyGraphs() {
  return { vectors: vectorGraph("policy.table"), rows: deviceGraph() };
}

/** The graph of a device: its score, from the sum of its tables' vectors and its costs. */
function deviceGraph(): Graph {
  const graph = new GraphBuilder(deviceCostNames.length);
  const widths = [64, vectorColumns];
  const costs = layers(graph, dataOf(graph), { name: "policy.costs", widths, reluLast: true });
  const both = blocks.concat(graph, [sumsIn(graph), costs]);
  return graph.finish(layers(graph, both, { name: "policy.device", widths: [1] }));
}

/** Episodes of one task, as input of the policy's gradient. */
export interface PolicyEpisodes {
  readonly devices: number;
  /** (R,N): 1 where a device has a table, before a step. */
  readonly places: Float32Array;
  /** The predicted costs that the policy read, step by step. */
  readonly seen: readonly Float32Array[];
  /** (R): 1 where the table fits. */
  readonly hasRoom: Uint8Array;
  /** (R / D): the chosen device. */
  readonly actions: Int32Array;
  /** (R / D): advantage of the step's episode over the other episodes. */
  readonly advantages: Float64Array;
  /** Episodes that the loss is a mean over. */
  readonly count: number;
}

/** DreamShard's policy network, for any numbers of tables and devices. */
export class Policy {
  readonly weights: Weights;
  readonly #graphs = policyGraphs();

  constructor(kernels: Kernels, seed: number) {
    this.weights = new Weights(kernels, Object.values(this.#graphs), seed);
  }

  /** Returns the vectors (N,E) of tables (N,X). */
  vectors(features: Tensor): Float32Array {
    return vectorsBy(this.weights, this.#graphs.vectors, features);
  }

  /** Returns the scores of `rows` devices, step by step. `seen`, if given, keeps the costs. */
  player(rows: number, seen?: Float32Array[]): Score {
    const { kernels } = this.weights;
    const network = this.weights.kept(this.#graphs.rows, rows);
    const x = kernels.tensor([rows, vectorColumns]);
    const data = kernels.tensor([rows, deviceCostNames.length]);
    return ({ sums, costs }) => {
      seen?.push(costs.slice());
      kernels.write(x, sums);
      kernels.write(data, costs);
      return kernels.read(network.forward({ sums: x, data }));
    };
  }

  /**
   * Sets the gradient of REINFORCE (Williams, 1992), and returns the loss: the mean over episodes
   * of the sum over steps of -advantage * log probability - entropyWeight * entropy. `features`
   * (N,X): those of the tables in the order in which they were placed.
   */
  gradient(features: Tensor, episodes: PolicyEpisodes, entropyWeight: number): number {
    const { kernels } = this.weights;
    const { devices, hasRoom, actions, advantages, count, seen } = episodes;
    const [tables, rows] = [features.shape[0] ?? 0, hasRoom.length];
    const network = new SumsNetwork(this.weights, this.#graphs, { tables, rows });
    const places = kernels.tensor([rows, tables]);
    kernels.write(places, episodes.places);
    const data = kernels.tensor([rows, deviceCostNames.length]);
    for (const [step, costs] of seen.entries()) {
      const each = rows / seen.length;
      kernels.write(kernels.part(data, step * each, each), costs);
    }
    let loss = 0;
    network.learn({ features, places, data }, (scores) => {
      const dScores = new Float32Array(rows);
      for (const [step, action] of actions.entries()) {
        const first = step * devices;
        const shares = probabilities(scores, hasRoom, first, devices);
        const advantage = advantages[step] ?? 0;
        loss += choiceLoss(dScores, first, shares, { action, advantage, entropyWeight, count: 1 });
      }
      return dScores.map((d) => d / count);
    });
    return loss / count;
  }
}
