// The cost network of AutoShard (Zha et al., KDD 2022, section 3.2) and DreamShard (Zha et al.,
// NeurIPS 2022, section 3.2): predicts the costs of the devices of a plan from the features of
// their tables. Each table becomes a vector; the costs of a device are predicted from the sum of
// its tables' vectors: the cost of lookup and update for AutoShard, and the costs of both
// exchanges, too, for DreamShard.
//
// N = tables of a pool, X = features of a table, E = columns of a vector, P = plans, D = devices,
// R = P D, C = costs of a device.

import {
  blocks,
  type Graph,
  GraphBuilder,
  type Kernels,
  type RandomStream,
  type Tensor,
} from "../../../internal.ts";
import type { DeviceCosts } from "../search/cost-networks.ts";
import type { TablesOfDevices } from "../search/greedy.ts";
import {
  adamOver,
  layers,
  SumsNetwork,
  sumsIn,
  vectorColumns,
  vectorGraph,
  vectorsBy,
  Weights,
} from "./policy-networks.ts";
import { drawn, policyStandardOf, poolFeatures, type SizedTable } from "./table-pool.ts";

/** The costs of a device: lookup and update, backward exchange, forward exchange. */
export const deviceCostNames = ["compute", "backward", "forward"] as const;

/** The cost that AutoShard predicts and balances. */
export const autoCostNames = ["compute"] as const;

export type DeviceCostName = (typeof deviceCostNames)[number];

/** A plan of tables of the pool, and the measured costs of its devices. */
export interface MeasuredPlan {
  readonly placed: TablesOfDevices;
  readonly costs: readonly DeviceCosts[];
}

/** The graphs of a cost network with these costs: of tables, and of devices. */
export function costGraphs(names: readonly DeviceCostName[]) {
  return { vectors: vectorGraph("cost.table"), rows: headsGraph(names) };
}

function headsGraph(names: readonly DeviceCostName[]): Graph {
  const graph = new GraphBuilder(0);
  const sums = sumsIn(graph);
  const heads = names.map((name) => {
    return layers(graph, sums, { name: `cost.${name}`, widths: [64, 1] });
  });
  return graph.finish(blocks.concat(graph, heads));
}

/** A cost network that predicts the costs with these names. */
export class CostModel {
  readonly weights: Weights;
  readonly names: readonly DeviceCostName[];
  readonly #graphs: ReturnType<typeof costGraphs>;

  constructor(kernels: Kernels, seed: number, names: readonly DeviceCostName[]) {
    this.names = names;
    this.#graphs = costGraphs(names);
    this.weights = new Weights(kernels, Object.values(this.#graphs), seed);
  }

  /** Returns the vectors (N,E) of tables (N,X). */
  vectors(features: Tensor): Float32Array {
    return vectorsBy(this.weights, this.#graphs.vectors, features);
  }

  /**
   * Returns a function that predicts the costs (R,C) of R devices from the sums of their vectors,
   * in the unit of training.
   */
  deviceCosts(rows: number): (sums: Float32Array) => Float32Array {
    const { kernels } = this.weights;
    const network = this.weights.kept(this.#graphs.rows, rows);
    const x = kernels.tensor([rows, vectorColumns]);
    return (sums) => {
      kernels.write(x, sums);
      return kernels.read(network.forward({ sums: x }));
    };
  }

  /**
   * Returns a function that sets the gradient of the loss of P measured plans, whose costs are
   * divided by `unit`, and returns the loss: the sum over the C costs of their mean squared errors.
   */
  trainer(of: { readonly features: Tensor; readonly plans: number; readonly devices: number }) {
    const { kernels } = this.weights;
    const [tables, rows] = [of.features.shape[0] ?? 0, of.plans * of.devices];
    const network = new SumsNetwork(this.weights, this.#graphs, { tables, rows });
    const places = kernels.tensor([rows, tables]);
    return (batch: readonly MeasuredPlan[], unit: number): number => {
      kernels.write(places, placesOf(batch, tables));
      let squares = 0;
      network.learn({ features: of.features, places }, (outputs) => {
        const dOut = new Float32Array(outputs.length);
        let i = 0;
        for (const { costs } of batch) {
          for (const device of costs) {
            for (const name of this.names) {
              const error = (outputs[i] ?? 0) - device[name] / unit;
              squares += error ** 2;
              dOut[i++] = (2 * error) / rows;
            }
          }
        }
        return dOut;
      });
      return squares / rows;
    };
  }
}

/** (R,N): how often a device has a table. */
function placesOf(batch: readonly MeasuredPlan[], tables: number): Float32Array {
  const all = batch.flatMap(({ placed }) => placed);
  const places = new Float32Array(all.length * tables);
  for (const [row, indices] of all.entries()) {
    for (const index of indices)
      places[row * tables + index] = (places[row * tables + index] ?? 0) + 1;
  }
  return places;
}

/** Plans of an update of the cost network. */
const batchPlans = 64;
/** Weight decay of the cost network: prevents overfitting to the tables of the training. */
const costDecay = 1;

/** The cost network in the training of a policy: learns the costs of plans of the pool's tables. */
export function costLearner(
  model: CostModel,
  tables: readonly SizedTable[],
  of: {
    readonly devices: number;
    /** Learning rate of the first update. */
    readonly rate: number;
    readonly random: RandomStream;
  },
) {
  const { devices, rate, random } = of;
  const standard = policyStandardOf(tables);
  const features = poolFeatures(model.weights.kernels, tables, standard);
  const gradient = model.trainer({ features, plans: batchPlans, devices });
  const update = adamOver(model.weights, { rate, decay: costDecay });
  return {
    standard,
    features,
    /**
     * Makes `count` updates with costs in `unit`, each at a share of the learning rate; returns the
     * last loss, 0 without plans.
     */
    learn(
      measured: readonly MeasuredPlan[],
      unit: number,
      { count, shareOf }: { readonly count: number; readonly shareOf: (update: number) => number },
    ): number {
      let loss = 0;
      for (let i = 0; i < count && measured.length > 0; i++) {
        const batch = Array.from({ length: batchPlans }, () => drawn(measured, random));
        loss = gradient(batch, unit);
        update(shareOf(i));
      }
      return loss;
    },
  };
}
