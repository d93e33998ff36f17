// An LSTM layer (Hochreiter and Schmidhuber, 1997) on the engine's kernels. One matrix product
// computes the gates of a step, and one the gradients of the weights for all steps. As in PyTorch
// the gates are in the order input, forget, cell, output; unlike PyTorch there is one bias. States
// begin at 0.
//
// T = steps, B = episodes in parallel, H = columns of input and of state. Rows are by step, then
// episode.

import type { Kernels, Tensor } from "../../../../internal.ts";
import type { ParameterShape, Parameters } from "../parameters.ts";

export interface LstmSpec {
  readonly name: string;
  /** H */
  readonly columns: number;
}

/**
 * Parameters: `name.weight` (4H,2H), columns for the input and then for the state, and `name.bias`
 * (4H).
 */
export function lstmShapes({ name, columns }: LstmSpec): ParameterShape[] {
  const scale = 1 / Math.sqrt(columns);
  return [
    { name: `${name}.weight`, shape: [4 * columns, 2 * columns], scale },
    { name: `${name}.bias`, shape: [4 * columns], scale },
  ];
}

/** Values that a step keeps for its backward pass, each (B,H). */
interface Step {
  readonly input: Tensor;
  readonly forget: Tensor;
  readonly cell: Tensor;
  readonly output: Tensor;
  /** The state c, and its tanh. */
  readonly state: Tensor;
  readonly bent: Tensor;
}

const gates = ["input", "forget", "cell", "output"] as const;

/** A layer with memory for T steps, which every run overwrites. */
export class LstmPass {
  readonly #kernels: Kernels;
  readonly #parameters: Parameters;
  readonly #spec: LstmSpec;
  readonly #episodes: number;
  readonly #steps: readonly Step[];
  /** (T B,2H): input and previous state of each step. */
  readonly #inputs: Tensor;
  readonly #out: Tensor;
  readonly #sums: Tensor;
  readonly #both: Tensor;
  readonly #one: Tensor;
  readonly #two: Tensor;
  readonly #minusOne: Tensor;

  constructor(
    kernels: Kernels,
    parameters: Parameters,
    spec: LstmSpec,
    of: { readonly steps: number; readonly episodes: number },
  ) {
    const { steps, episodes } = of;
    const { columns } = spec;
    const made = () => kernels.tensor([episodes, columns]);
    this.#kernels = kernels;
    this.#parameters = parameters;
    this.#spec = spec;
    this.#episodes = episodes;
    this.#steps = Array.from({ length: steps }, (): Step => {
      const kept = { input: made(), forget: made(), cell: made(), output: made() };
      return { ...kept, state: made(), bent: made() };
    });
    this.#inputs = kernels.tensor([steps * episodes, 2 * columns]);
    this.#out = kernels.tensor([steps * episodes, columns]);
    this.#sums = kernels.tensor([episodes, 4 * columns]);
    [this.#both, this.#one, this.#two, this.#minusOne] = [made(), made(), made(), made()];
    kernels.fill(this.#one, 1);
    kernels.fill(this.#two, 2);
    kernels.fill(this.#minusOne, -1);
  }

  /**
   * Returns the states (B,H) after a step with the inputs x (B,H). Call it for steps in order, from
   * 0.
   */
  step(step: number, x: Tensor): Tensor {
    const kernels = this.#kernels;
    const own = this.#steps[step];
    if (own === undefined) throw new RangeError(`Expected a step below ${this.#steps.length}`);
    const { name, columns } = this.#spec;
    const before = this.#steps[step - 1];
    const inputs = this.#rowsOf(this.#inputs, step);
    const out = this.#rowsOf(this.#out, step);
    kernels.copyColumns(inputs, 0, x, 0, columns);
    if (before !== undefined) {
      kernels.copyColumns(inputs, columns, this.#rowsOf(this.#out, step - 1), 0, columns);
    }
    const [weight, bias] = [`${name}.weight`, `${name}.bias`].map((of) => {
      return this.#parameters.weight(of);
    }) as [Tensor, Tensor];
    kernels.linear(this.#sums, inputs, weight, bias, false);
    for (const [i, gate] of gates.entries()) {
      kernels.copyColumns(own[gate], 0, this.#sums, i * columns, columns);
      if (gate === "cell") this.#tanh(own.cell, own.cell);
      else kernels.sigmoid(own[gate], own[gate]);
    }
    kernels.multiply(own.state, own.input, own.cell);
    if (before !== undefined) {
      kernels.multiplyAdd(own.state, own.forget, before.state, own.state);
    }
    this.#tanh(own.bent, own.state);
    kernels.multiply(out, own.output, own.bent);
    return out;
  }

  /**
   * Adds the gradients of all steps to the parameters', from dOut (T B,H), which it overwrites, and
   * writes the inputs' to dX (T B,H).
   */
  backward(dX: Tensor, dOut: Tensor): void {
    const kernels = this.#kernels;
    const { name, columns } = this.#spec;
    const rows = this.#steps.length * this.#episodes;
    const weight = this.#parameters.weight(`${name}.weight`);
    const dSums = kernels.tensor([rows, 4 * columns]);
    const dInputs = kernels.tensor([this.#episodes, 2 * columns]);
    const made = () => kernels.tensor([this.#episodes, columns]);
    const [dState, d, more] = [made(), made(), made()];
    for (const [step, own] of [...this.#steps.entries()].reverse()) {
      const dStep = this.#rowsOf(dOut, step);
      const dGates = this.#rowsOf(dSums, step);
      const put = (gate: number) => kernels.copyColumns(dGates, gate * columns, d, 0, columns);
      const before = this.#steps[step - 1];
      // h = output * tanh(c)
      kernels.multiply(d, dStep, own.bent);
      kernels.dSigmoid(d, own.output);
      put(3);
      kernels.multiply(d, dStep, own.output);
      this.#dTanh(d, own.bent);
      kernels.add(dState, dState, d);
      // c = forget * c before + input * cell
      kernels.multiply(d, dState, own.cell);
      kernels.dSigmoid(d, own.input);
      put(0);
      kernels.multiply(d, dState, own.input);
      this.#dTanh(d, own.cell);
      put(2);
      if (before === undefined) kernels.fill(d, 0);
      else kernels.multiply(d, dState, before.state);
      kernels.dSigmoid(d, own.forget);
      put(1);
      kernels.multiply(dState, dState, own.forget);
      kernels.dLinearInput(dInputs, dGates, weight);
      kernels.copyColumns(this.#rowsOf(dX, step), 0, dInputs, 0, columns);
      if (before === undefined) continue;
      kernels.copyColumns(more, 0, dInputs, columns, columns);
      const dBefore = this.#rowsOf(dOut, step - 1);
      kernels.add(dBefore, dBefore, more);
    }
    const slices = { first: 0, bounds: Int32Array.of(0, rows) };
    const [dWeight, dBias] = [kernels.tensor(weight.shape), kernels.tensor([4 * columns])];
    kernels.dLinearWeight([dWeight], [dBias], dSums, this.#inputs, slices);
    for (const [of, own] of [
      ["weight", dWeight],
      ["bias", dBias],
    ] as const) {
      const gradient = this.#parameters.gradient(`${name}.${of}`);
      kernels.add(gradient, gradient, own);
    }
  }

  /** out = tanh(x) = 2 / (1 + exp(-2x)) - 1; `out` may be `x`. */
  #tanh(out: Tensor, x: Tensor): void {
    const kernels = this.#kernels;
    kernels.scale(out, x, 2);
    kernels.sigmoid(out, out);
    kernels.multiplyAdd(out, out, this.#two, this.#minusOne);
  }

  /** d * (1 - out^2), in place; `out` is the result of `#tanh`. */
  #dTanh(d: Tensor, out: Tensor): void {
    const kernels = this.#kernels;
    kernels.multiply(this.#both, out, out);
    kernels.scale(this.#both, this.#both, -1);
    kernels.add(this.#both, this.#both, this.#one);
    kernels.multiply(d, d, this.#both);
  }

  /** The rows (B, ·) of a step. */
  #rowsOf(t: Tensor, step: number): Tensor {
    return this.#kernels.part(t, step * this.#episodes, this.#episodes);
  }
}
