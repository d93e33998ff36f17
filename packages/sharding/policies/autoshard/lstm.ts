// An LSTM layer (Hochreiter and Schmidhuber, 1997) as a block of a graph. One call computes the
// gradient of the weights for all steps. As in PyTorch the gates are in the order input, forget,
// cell, output; unlike PyTorch there is one bias.
//
// T = steps, B = episodes in parallel, H = columns of input and of state. Samples of the graph are
// by step, then episode: sample t B + b is step t of episode b.

import type { Block, GraphBuilder, GraphValue, Memory, Tensor } from "../../../../internal.ts";

export interface LstmOptions {
  /** Prefix of the parameters: `name.weight` (4H,2H), of input and state, and `name.bias` (4H). */
  readonly name: string;
  /** B */
  readonly episodes: number;
  /**
   * Whether a pass continues where the pass before ended, so that it has no backward pass;
   * otherwise each pass begins with states of 0.
   */
  readonly continues: boolean;
}

/** Computes the states of an LSTM from its inputs x (H). Returns (H). */
export function lstm(graph: GraphBuilder, x: GraphValue, options: LstmOptions): GraphValue {
  const [columns = 0] = x.shape;
  const scale = 1 / Math.sqrt(columns);
  return graph.add({
    inputs: [x],
    shape: [columns],
    parameters: [
      { name: `${options.name}.weight`, shape: [4 * columns, 2 * columns], scale },
      { name: `${options.name}.bias`, shape: [4 * columns], scale },
    ],
    start: (memory) => startLstm(memory, columns, options),
  });
}

function startLstm(
  memory: Memory,
  columns: number,
  { name, episodes, continues }: LstmOptions,
): Block {
  const { kernels, samplesMax } = memory;
  const [weight, bias] = [memory.parameter(`${name}.weight`), memory.parameter(`${name}.bias`)];
  const gateNames = ["input", "forget", "cell", "output"] as const;
  const gates = gateNames.map((gate, i) => {
    const [first, count] = [i * columns, columns];
    return { gate, w: kernels.part(weight, first, count), b: kernels.part(bias, first, count) };
  });
  const few = () => kernels.tensor([episodes, columns]);
  /** (B,H) of each step: the gates, the state c, and tanh(c). */
  const steps = Array.from({ length: samplesMax / episodes }, () => {
    return { input: few(), forget: few(), cell: few(), output: few(), state: few(), bent: few() };
  });
  /** (T B,2H): input and previous output of each step. */
  const inputs = kernels.tensor([samplesMax, 2 * columns]);
  /** (B,H): output and state before the first step of a pass. */
  const [h0, c0] = [few(), few()];
  const [one, two, minusOne] = [few(), few(), few()];
  kernels.fill(one, 1);
  kernels.fill(two, 2);
  kernels.fill(minusOne, -1);
  const [d, dState, spare] = [few(), few(), few()];
  const rows = (of: Tensor, step: number) => kernels.part(of, step * episodes, episodes);

  /** out = tanh(x) = 2 / (1 + exp(-2x)) - 1; `out` may be `x`. */
  const tanh = (out: Tensor, x: Tensor) => {
    kernels.scale(out, x, 2);
    kernels.sigmoid(out, out);
    kernels.multiplyAdd(out, out, two, minusOne);
  };
  /** d *= 1 - out^2, where `out` is the result of `tanh`. */
  const dTanh = (out: Tensor) => {
    kernels.multiply(spare, out, out);
    kernels.scale(spare, spare, -1);
    kernels.add(spare, spare, one);
    kernels.multiply(d, d, spare);
  };

  return {
    forward({ samples }): void {
      const [x, out] = [memory.x(0, samples), memory.out(samples)];
      if (!continues) for (const t of [h0, c0]) kernels.fill(t, 0);
      let [h, c] = [h0, c0];
      for (const [step, ofStep] of steps.slice(0, samples / episodes).entries()) {
        const [both, to] = [rows(inputs, step), rows(out, step)];
        kernels.copyColumns(both, 0, rows(x, step), 0, columns);
        kernels.copyColumns(both, columns, h, 0, columns);
        for (const { gate, w, b } of gates) {
          kernels.linear(ofStep[gate], both, w, b, false);
          if (gate === "cell") tanh(ofStep.cell, ofStep.cell);
          else kernels.sigmoid(ofStep[gate], ofStep[gate]);
        }
        kernels.multiply(ofStep.state, ofStep.input, ofStep.cell);
        kernels.multiplyAdd(ofStep.state, ofStep.forget, c, ofStep.state);
        tanh(ofStep.bent, ofStep.state);
        kernels.multiply(to, ofStep.output, ofStep.bent);
        [h, c] = [to, ofStep.state];
      }
      if (!continues) return;
      kernels.copy(h0, h);
      kernels.copy(c0, c);
    },

    backward({ samples, slices }): void {
      const [dX, dOut] = [memory.dX(0, samples), memory.dOut(samples)];
      const dGates = kernels.tensor([samples, 4 * columns]);
      const dInputs = kernels.tensor([episodes, 2 * columns]);
      kernels.fill(dState, 0);
      for (const [step, ofStep] of [...steps.slice(0, samples / episodes).entries()].reverse()) {
        const [dH, dStep] = [rows(dOut, step), rows(dGates, step)];
        const put = (gate: number) => kernels.copyColumns(dStep, gate * columns, d, 0, columns);
        // h = output * tanh(c)
        kernels.multiply(d, dH, ofStep.bent);
        kernels.dSigmoid(d, ofStep.output);
        put(3);
        kernels.multiply(d, dH, ofStep.output);
        dTanh(ofStep.bent);
        kernels.add(dState, dState, d);
        // c = forget * c before + input * cell
        kernels.multiply(d, dState, ofStep.cell);
        kernels.dSigmoid(d, ofStep.input);
        put(0);
        kernels.multiply(d, dState, ofStep.input);
        dTanh(ofStep.cell);
        put(2);
        kernels.multiply(d, dState, steps[step - 1]?.state ?? c0);
        kernels.dSigmoid(d, ofStep.forget);
        put(1);
        kernels.multiply(dState, dState, ofStep.forget);
        kernels.dLinearInput(dInputs, dStep, weight);
        if (dX !== undefined) kernels.copyColumns(rows(dX, step), 0, dInputs, 0, columns);
        if (step === 0) continue;
        kernels.copyColumns(d, 0, dInputs, columns, columns);
        const dBefore = rows(dOut, step - 1);
        kernels.add(dBefore, dBefore, d);
      }
      const x = kernels.part(inputs, 0, samples);
      const [dWeight, dBias] = ["weight", "bias"].map((of) => memory.gradients(`${name}.${of}`));
      kernels.dLinearWeight(dWeight ?? [], dBias ?? [], dGates, x, slices);
    },
  };
}
