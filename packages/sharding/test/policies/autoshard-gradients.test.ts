// The gradients of the LSTM and of AutoShard's network, by central differences.

import test from "ava";
import { valuesOf } from "../../../../src/kernels/reference/memory.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import {
  gradientError,
  randomTensor,
  weighted,
} from "../../../../test/helpers/batches/central-differences.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { exactKernels, worstError } from "../../../../test/helpers/policies.ts";
import { LstmPass, lstmShapes } from "../../policies/autoshard/lstm.ts";
import { AutoNetwork } from "../../policies/autoshard/network.ts";
import { vectorColumns } from "../../policies/cost-model.ts";
import { Parameters } from "../../policies/parameters.ts";

test("the LSTM's gradients are slopes of the sum of its states, by weights and inputs", (t) => {
  const kernels = exactKernels();
  const spec = { name: "lstm", columns: 3 };
  const [steps, episodes] = [4, 2];
  const parameters = new Parameters(kernels, lstmShapes(spec), 1);
  const pass = new LstmPass(kernels, parameters, spec, { steps, episodes });
  const random = new RandomStream(2, 1);
  const x = randomTensor(kernels, random, [steps * episodes, 3]);
  const weights = randomTensor(kernels, random, [steps * episodes, 3]);
  const loss = () => {
    let sum = 0;
    for (let step = 0; step < steps; step++) {
      const part = (of: typeof x) => kernels.part(of, step * episodes, episodes);
      sum += weighted(pass.step(step, part(x)), part(weights));
    }
    return sum;
  };
  loss();
  const dX = kernels.tensor([steps * episodes, 3]);
  const dOut = kernels.tensor([steps * episodes, 3]);
  kernels.copy(dOut, weights);
  pass.backward(dX, dOut);
  for (const name of ["lstm.weight", "lstm.bias"]) {
    const gradient = valuesOf(parameters.gradient(name)).slice();
    const error = gradientError(parameters.weight(name), gradient, loss);
    t.true(error < 1e-6, `${name}: ${error}`);
  }
  const error = gradientError(x, valuesOf(dX).slice(), loss);
  t.true(error < 1e-6, `x: ${error}`);
});

test("an LSTM step follows its equations", (t) => {
  const kernels = exactKernels();
  const spec = { name: "lstm", columns: 1 };
  const parameters = new Parameters(kernels, lstmShapes(spec), 1);
  // Weights of input, forget, cell and output gate: for x, for the previous state, and a bias.
  const [of, before, bias] = [
    [0.5, -1, 2, 1],
    [1, 0.5, -1, 2],
    [0.1, 0.2, 0.3, 0.4],
  ] as const;
  const weight = of.flatMap((own, gate) => [own, before[gate] ?? 0]);
  valuesOf(parameters.weight("lstm.weight")).set(weight);
  valuesOf(parameters.weight("lstm.bias")).set(bias);
  const pass = new LstmPass(kernels, parameters, spec, { steps: 2, episodes: 1 });
  const logistic = (x: number) => 1 / (1 + Math.exp(-x));
  let [state, cell] = [0, 0];
  for (const [step, x] of [0.7, -0.4].entries()) {
    const sums = of.map((own, i) => own * x + (before[i] ?? 0) * state + (bias[i] ?? 0));
    const [input = 0, forget = 0, update = 0, output = 0] = sums;
    cell = logistic(forget) * cell + logistic(input) * Math.tanh(update);
    state = logistic(output) * Math.tanh(cell);
    const inputs = kernels.tensor([1, 1]);
    kernels.fill(inputs, x);
    const found = valuesOf(pass.step(step, inputs))[0] ?? 0;
    t.true(Math.abs(found - state) < 1e-7, `${found}, expected ${state}`);
  }
});

testIf(testAll)("AutoShard's gradients are the slopes of a sum of its scores and values", (t) => {
  const kernels = exactKernels();
  const shape = { steps: 3, episodes: 2, devices: 2 };
  const [states, rows] = [6, 12];
  const random = new RandomStream(4, 1);
  const network = new AutoNetwork(kernels, 3);
  const made = (count: number, columns: number) => randomTensor(kernels, random, [count, columns]);
  const inputs = {
    tables: made(states, vectorColumns),
    placed: made(states, 1),
    sums: made(rows, vectorColumns),
    numbers: made(rows, 2),
  };
  const [ofScores, ofValues] = [made(rows, 1), made(states, 1)].map((own) => kernels.read(own));
  if (ofScores === undefined || ofValues === undefined) return t.fail();
  const pass = network.pass({ ...shape, isPlayed: false });
  const sumOf = (a: Float32Array, b: Float32Array) => {
    return a.reduce((sum, own, i) => sum + own * (b[i] ?? 0), 0);
  };
  const loss = () => {
    const { scores, values } = pass.forward(inputs);
    return sumOf(scores, ofScores) + sumOf(values, ofValues);
  };
  const names = network.parameters.named().map(({ name }) => name);
  t.true(names.length >= 16);
  loss();
  pass.backward(ofScores, ofValues);
  const error = worstError(kernels, network.parameters, names, loss);
  t.true(error < 1e-4, `${error}`);

  // Step by step, the devices get the same scores.
  const { scores } = pass.forward(inputs);
  const player = network.pass({ ...shape, isPlayed: true });
  for (let step = 0; step < shape.steps; step++) {
    const part = (of: typeof inputs.sums, count: number) => kernels.part(of, step * count, count);
    const own = player.scores(step, {
      tables: part(inputs.tables, 2),
      placed: part(inputs.placed, 2),
      sums: part(inputs.sums, 4),
      numbers: part(inputs.numbers, 4),
    });
    t.deepEqual([...own], [...scores.subarray(4 * step, 4 * step + 4)]);
  }
});
