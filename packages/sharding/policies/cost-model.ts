// The cost network of AutoShard (Zha et al., KDD 2022, section 3.2) and DreamShard (Zha et al.,
// NeurIPS 2022, section 3.2): predicts the costs of the devices of a plan from the features of
// their tables. Each table becomes a vector; the costs of a device are predicted from the sum of
// its tables' vectors: the cost of lookup and update for AutoShard, and the costs of both
// exchanges, too, for DreamShard.
//
// N = tables of a pool, X = features of a table, E = columns of a vector (32), P = plans, D =
// devices, R = P D.

import type { Kernels, Tensor } from "../../../internal.ts";
import type { DeviceCosts } from "../search/cost-networks.ts";
import type { TablesOfDevices } from "../search/greedy.ts";
import { LayersPass, type LayersSpec, layerShapes } from "./dense-layers.ts";
import { Parameters } from "./parameters.ts";
import { policyFeatures } from "./table-pool.ts";

/** Columns of a table's vector. */
export const vectorColumns = 32;

const table: LayersSpec = {
  name: "cost.table",
  widths: [policyFeatures, 128, vectorColumns],
  reluLast: true,
};

/** The costs of a device: lookup and update, backward exchange, forward exchange. */
export const deviceCostNames = ["compute", "backward", "forward"] as const;

export type DeviceCostName = (typeof deviceCostNames)[number];

/** A plan of tables of the pool, and the measured costs of its devices. */
export interface MeasuredPlan {
  readonly placed: TablesOfDevices;
  readonly costs: readonly DeviceCosts[];
}

function headOf(name: string): LayersSpec {
  return { name: `cost.${name}`, widths: [vectorColumns, 64, 1], reluLast: false };
}

/** Parameter shapes of a cost network with a head for each of these costs. */
export function costModelShapes(names: readonly DeviceCostName[]) {
  return [table, ...names.map(headOf)].flatMap(layerShapes);
}

export class CostModel {
  readonly parameters: Parameters;
  readonly names: readonly DeviceCostName[];
  readonly #kernels: Kernels;

  constructor(kernels: Kernels, seed: number, names: readonly DeviceCostName[]) {
    this.#kernels = kernels;
    this.names = names;
    this.parameters = new Parameters(kernels, costModelShapes(names), seed);
  }

  /** Returns the vectors (N,E) of tables (N,X). */
  vectors(features: Tensor): Float32Array {
    const pass = new LayersPass(this.#kernels, this.parameters, table, features.shape[0] ?? 0);
    return this.#kernels.read(pass.forward(features));
  }

  /**
   * Returns a function that predicts the costs (R, heads) of R devices from the sums of their
   * vectors, in the unit of training. Each call overwrites the result of the one before.
   */
  deviceCosts(rows: number): (sums: Float32Array) => Float32Array {
    const kernels = this.#kernels;
    const heads = this.names.map(headOf);
    const passes = heads.map((head) => new LayersPass(kernels, this.parameters, head, rows));
    const x = kernels.tensor([rows, vectorColumns]);
    const costs = new Float32Array(rows * heads.length);
    return (sums) => {
      kernels.write(x, sums);
      for (const [head, pass] of passes.entries()) {
        const out = kernels.read(pass.forward(x));
        for (let row = 0; row < rows; row++) costs[row * heads.length + head] = out[row] ?? 0;
      }
      return costs;
    };
  }
}

/** Trains a cost network with batches of P measured plans of D devices. */
export class CostTrainer {
  readonly #kernels: Kernels;
  readonly #model: CostModel;
  readonly #features: Tensor;
  readonly #rows: number;
  readonly #vectors: LayersPass;
  readonly #heads: readonly LayersPass[];

  constructor(
    kernels: Kernels,
    model: CostModel,
    of: { readonly features: Tensor; readonly plans: number; readonly devices: number },
  ) {
    const { features, plans, devices } = of;
    this.#kernels = kernels;
    this.#model = model;
    this.#features = features;
    this.#rows = plans * devices;
    const pass = (spec: LayersSpec, rows: number) => {
      return new LayersPass(kernels, model.parameters, spec, rows);
    };
    this.#vectors = pass(table, features.shape[0] ?? 0);
    this.#heads = model.names.map((name) => pass(headOf(name), this.#rows));
  }

  /**
   * Sets the gradients of the loss of the plans, and returns the loss: the sum of the heads' mean
   * squared errors. Costs are divided by `unit`.
   */
  gradients(batch: readonly MeasuredPlan[], unit: number): number {
    const kernels = this.#kernels;
    const [rows, tables] = [this.#rows, this.#features.shape[0] ?? 0];
    this.#model.parameters.clear();
    const vectors = this.#vectors.forward(this.#features);
    const places = kernels.tensor([rows, tables]);
    kernels.write(places, placesOf(batch, tables));
    const sums = kernels.tensor([rows, vectorColumns]);
    multiply(kernels, sums, places, vectors);
    const dSums = kernels.tensor([rows, vectorColumns]);
    const more = kernels.tensor([rows, vectorColumns]);
    let loss = 0;
    for (const [head, name] of this.#model.names.entries()) {
      const pass = this.#heads[head];
      if (pass === undefined) continue;
      const own = batch.flatMap(({ costs }) => costs.map((device) => device[name] / unit));
      loss += this.#learn(pass, sums, own, more);
      kernels.add(dSums, dSums, more);
    }
    const dVectors = kernels.tensor([tables, vectorColumns]);
    multiplyTransposed(kernels, dVectors, places, dSums);
    this.#vectors.backward(dVectors);
    return loss;
  }

  /** Adds the gradients of a head, and returns its mean squared error; dX is overwritten. */
  #learn(pass: LayersPass, x: Tensor, costs: readonly number[], dX: Tensor): number {
    const kernels = this.#kernels;
    const out = kernels.read(pass.forward(x));
    const errors = costs.map((cost, i) => (out[i] ?? 0) - cost);
    const d = kernels.tensor([costs.length, 1]);
    kernels.write(
      d,
      Float32Array.from(errors, (error) => (2 * error) / costs.length),
    );
    pass.backward(d, dX);
    return errors.reduce((sum, error) => sum + error ** 2, 0) / costs.length;
  }
}

/** (R,N): 1 where a device has a table. */
function placesOf(batch: readonly MeasuredPlan[], tables: number): Float32Array {
  const all = batch.flatMap(({ placed }) => placed);
  const places = new Float32Array(all.length * tables);
  for (const [row, own] of all.entries()) {
    for (const index of own) places[row * tables + index] = (places[row * tables + index] ?? 0) + 1;
  }
  return places;
}

/** out (M,E) = a (M,K) x (K,E) */
export function multiply(kernels: Kernels, out: Tensor, a: Tensor, x: Tensor): void {
  const [m = 0, e = 0] = out.shape;
  const [k = 0] = x.shape;
  kernels.products(kernels.reshape(out, [1, m, e]), a, kernels.reshape(x, [1, k, e]), "ab");
}

/** dX (K,E) = a (M,K) transposed, times dOut (M,E). The backward of `multiply`. */
export function multiplyTransposed(kernels: Kernels, dX: Tensor, a: Tensor, dOut: Tensor): void {
  const [k = 0, e = 0] = dX.shape;
  const [m = 0] = dOut.shape;
  const [whole, left] = [kernels.reshape(dX, [1, k, e]), kernels.reshape(a, [1, m, k])];
  kernels.products(whole, left, kernels.reshape(dOut, [1, m, e]), "aTb");
}
