// DreamShard's policy network (Zha et al., NeurIPS 2022, section 3.3): chooses the device of the
// next table. A device is represented by the sum of its tables' vectors and by its costs, as
// predicted by the cost network. The network computes a score from both, and a softmax over the
// devices with room turns the scores into probabilities.
//
// N = tables of a task, X = features of a table, E = columns of a vector, D = devices, R = devices
// of all steps of all episodes.

import type { Kernels, Tensor } from "../../../../internal.ts";
import { entropyOf, probabilities } from "../choices.ts";
import { deviceCostNames, multiply, multiplyTransposed, vectorColumns } from "../cost-model.ts";
import { LayersPass, type LayersSpec, layerShapes } from "../dense-layers.ts";
import { Parameters } from "../parameters.ts";
import { policyFeatures } from "../table-pool.ts";

const table: LayersSpec = {
  name: "policy.table",
  widths: [policyFeatures, 128, vectorColumns],
  reluLast: true,
};
const costs: LayersSpec = {
  name: "policy.costs",
  widths: [deviceCostNames.length, 64, vectorColumns],
  reluLast: true,
};
const device: LayersSpec = {
  name: "policy.device",
  widths: [2 * vectorColumns, 1],
  reluLast: false,
};

export const policyNetworkShapes = [table, costs, device].flatMap(layerShapes);

/** Inputs of the policy about devices, a row for each device. */
export interface DeviceRows {
  /** (R,E): sums of the vectors of their tables. */
  readonly sums: Tensor;
  /** (R,3): costs that the cost network predicts. */
  readonly costs: Tensor;
}

/** Episodes of one task, as input of their gradients. */
export interface Episodes {
  readonly devices: number;
  /** (N,X), in the order in which tables are placed. */
  readonly features: Tensor;
  /** (R,N): 1 where a device has a table, before a step. */
  readonly places: Tensor;
  /** (R,3): costs that the cost network predicts. */
  readonly costs: Tensor;
  /** (R): 1 where the table fits. */
  readonly hasRoom: Uint8Array;
  /** (R / D): the chosen device. */
  readonly actions: Int32Array;
  /** (R / D): advantage of the step's episode over the other episodes. */
  readonly advantages: Float64Array;
  /** Episodes that the loss is a mean over. */
  readonly count: number;
}

export class Policy {
  readonly parameters: Parameters;
  readonly #kernels: Kernels;

  constructor(kernels: Kernels, seed: number) {
    this.#kernels = kernels;
    this.parameters = new Parameters(kernels, policyNetworkShapes, seed);
  }

  /** Returns the vectors (N,E) of tables (N,X). */
  vectors(features: Tensor): Float32Array {
    const pass = new LayersPass(this.#kernels, this.parameters, table, features.shape[0] ?? 0);
    return this.#kernels.read(pass.forward(features));
  }

  /** Returns a function that computes the scores of R devices from their rows. */
  scores(rows: number): (of: DeviceRows) => Float32Array {
    const pass = new DevicePass(this.#kernels, this.parameters, rows);
    return (of) => this.#kernels.read(pass.forward(of));
  }

  /**
   * Sets the gradients of REINFORCE (Williams, 1992), and returns the loss: the mean over episodes
   * of the sum over steps of -advantage * log probability - entropyWeight * entropy.
   */
  gradients(episodes: Episodes, entropyWeight: number): number {
    const kernels = this.#kernels;
    const { features, places, count } = episodes;
    const [rows = 0, tables = 0] = places.shape;
    this.parameters.clear();
    const vectorsPass = new LayersPass(kernels, this.parameters, table, tables);
    const devicePass = new DevicePass(kernels, this.parameters, rows);
    const sums = kernels.tensor([rows, vectorColumns]);
    multiply(kernels, sums, places, vectorsPass.forward(features));
    const scores = kernels.read(devicePass.forward({ sums, costs: episodes.costs }));
    const { loss, dScores } = stepLosses(scores, episodes, entropyWeight);
    const d = kernels.tensor([rows, 1]);
    kernels.write(
      d,
      dScores.map((own) => own / count),
    );
    const dSums = kernels.tensor([rows, vectorColumns]);
    devicePass.backward(d, dSums);
    const dVectors = kernels.tensor([tables, vectorColumns]);
    multiplyTransposed(kernels, dVectors, places, dSums);
    vectorsPass.backward(dVectors);
    return loss / count;
  }
}

/**
 * The layers of a device: a layer for its costs, then a layer for the concatenation with its sums.
 */
class DevicePass {
  readonly #kernels: Kernels;
  readonly #costs: LayersPass;
  readonly #device: LayersPass;
  readonly #both: Tensor;
  readonly #rows: number;

  constructor(kernels: Kernels, parameters: Parameters, rows: number) {
    this.#kernels = kernels;
    this.#rows = rows;
    this.#costs = new LayersPass(kernels, parameters, costs, rows);
    this.#device = new LayersPass(kernels, parameters, device, rows);
    this.#both = kernels.tensor([rows, 2 * vectorColumns]);
  }

  /** Returns the scores (R,1). */
  forward(of: DeviceRows): Tensor {
    const kernels = this.#kernels;
    kernels.copyColumns(this.#both, 0, of.sums, 0, vectorColumns);
    kernels.copyColumns(this.#both, vectorColumns, this.#costs.forward(of.costs), 0, vectorColumns);
    return this.#device.forward(this.#both);
  }

  /**
   * Adds the gradients, and writes dSums. Predicted costs are data: no gradient reaches the cost
   * network.
   */
  backward(d: Tensor, dSums: Tensor): void {
    const kernels = this.#kernels;
    const dBoth = kernels.tensor([this.#rows, 2 * vectorColumns]);
    this.#device.backward(d, dBoth);
    kernels.copyColumns(dSums, 0, dBoth, 0, vectorColumns);
    const dCosts = kernels.tensor([this.#rows, vectorColumns]);
    kernels.copyColumns(dCosts, 0, dBoth, vectorColumns, vectorColumns);
    this.#costs.backward(dCosts);
  }
}

/** The sum of the losses of all steps, and the gradient of each device's score. */
function stepLosses(
  scores: Float32Array,
  { devices, hasRoom, actions, advantages }: Omit<Episodes, "features" | "places" | "costs">,
  entropyWeight: number,
): { loss: number; dScores: Float32Array } {
  const dScores = new Float32Array(scores.length);
  let loss = 0;
  for (let step = 0; step < actions.length; step++) {
    const first = step * devices;
    const shares = probabilities(scores, hasRoom, first, devices);
    const advantage = advantages[step] ?? 0;
    const action = actions[step] ?? 0;
    const entropy = entropyOf(shares);
    loss -= advantage * Math.log(shares[action] ?? 0) + entropyWeight * entropy;
    for (let own = 0; own < devices; own++) {
      const share = shares[own] ?? 0;
      if (share === 0) continue;
      const chosen = own === action ? 1 : 0;
      dScores[first + own] =
        advantage * (share - chosen) + entropyWeight * share * (Math.log(share) + entropy);
    }
  }
  return { loss, dScores };
}
