// The parameters of the networks of a placement policy: one flat tensor, its gradients, and Adam on
// the engine's kernels. A policy is small, so that one call updates all parameters.

import { type Kernels, keyOf, purposes, type Tensor } from "../../../internal.ts";
import type { Standard } from "../search/features.ts";

export interface ParameterShape {
  readonly name: string;
  readonly shape: readonly number[];
  /** Weights are initialised uniformly in ±scale. */
  readonly scale: number;
}

/** Weights by name, as in files. */
export interface NamedWeights {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** The trained networks of a policy. */
export interface TrainedNetworks {
  /** Standardisation of the features of tables. */
  readonly standard: Standard;
  /** Whether the policy reads predicted costs; false only for ablation. */
  readonly hasCosts: boolean;
  readonly weights: readonly NamedWeights[];
}

/** Adam's other hyperparameters, as published (Kingma and Ba, 2015). */
const adam = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 } as const;

export interface UpdateOptions {
  /** Weights are first multiplied by 1 - learning rate * decay (AdamW). @default 0 */
  readonly decay?: number;
  /** Maximum norm of the gradients; larger gradients are clipped to it. @default Infinity */
  readonly normMax?: number;
}

export class Parameters {
  readonly #kernels: Kernels;
  readonly #shapes: readonly ParameterShape[];
  readonly #weights: Tensor;
  readonly #gradients: Tensor;
  readonly #moments: readonly [Tensor, Tensor];
  readonly #own = new Map<string, { readonly weight: Tensor; readonly gradient: Tensor }>();
  #steps = 0;

  /** Initialises the weights from the seed, and the gradients to 0. */
  constructor(kernels: Kernels, shapes: readonly ParameterShape[], seed: number) {
    const count = shapes.reduce((sum, { shape }) => sum + sizeOf(shape), 0);
    this.#kernels = kernels;
    this.#shapes = shapes;
    this.#weights = kernels.tensor([count]);
    this.#gradients = kernels.tensor([count]);
    this.#moments = [kernels.tensor([count]), kernels.tensor([count])];
    let first = 0;
    for (const { name, shape, scale } of shapes) {
      const weight = kernels.reshape(this.#weights, shape, first);
      kernels.uniform(weight, keyOf(seed), purposes.policyInit, first, scale);
      this.#own.set(name, { weight, gradient: kernels.reshape(this.#gradients, shape, first) });
      first += sizeOf(shape);
    }
  }

  weight(name: string): Tensor {
    return this.#found(name).weight;
  }

  gradient(name: string): Tensor {
    return this.#found(name).gradient;
  }

  /** Sets all gradients to 0. */
  clear(): void {
    this.#kernels.fill(this.#gradients, 0);
  }

  /** One step of Adam with the gradients. */
  update(learningRate: number, options: UpdateOptions = {}): void {
    const { decay = 0, normMax = Number.POSITIVE_INFINITY } = options;
    const [m, v] = this.#moments;
    const g = this.#gradients;
    if (normMax < Number.POSITIVE_INFINITY) this.#kernels.clipNorm(g, g, normMax);
    this.#steps++;
    const correction1 = 1 - adam.beta1 ** this.#steps;
    const correction2 = 1 - adam.beta2 ** this.#steps;
    const numbers = { ...adam, decay, learningRate, correction1, correction2 };
    this.#kernels.applyFlat(this.#weights, [m, v], g, { kind: "adam", l2: 0, ...numbers });
  }

  named(): NamedWeights[] {
    return this.#shapes.map(({ name, shape }) => {
      return { name, shape, values: this.#kernels.read(this.weight(name)) };
    });
  }

  /** Copies the given weights, which must have every name with its number of elements. */
  take(weights: readonly NamedWeights[]): void {
    for (const { name } of this.#shapes) {
      const found = weights.find((one) => one.name === name);
      if (found === undefined) throw new RangeError(`Expected weights of ${name}`);
      this.#kernels.write(this.weight(name), found.values);
    }
  }

  #found(name: string) {
    const own = this.#own.get(name);
    if (own === undefined) throw new RangeError(`Expected a parameter, got ${name}`);
    return own;
  }
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}
