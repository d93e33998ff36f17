// The gradients of the LSTM and of AutoShard's network, by central differences.

import test from "ava";
import { valuesOf } from "../../../../src/kernels/reference/memory.ts";
import { GraphBuilder } from "../../../../src/model/graph/graph.ts";
import { parameterIn } from "../../../../src/model/graph/parameters.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { blockHasGradients } from "../../../../test/helpers/models/block-gradients.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { exactKernels, sizedTables, worstError } from "../../../../test/helpers/policies.ts";
import { lstm } from "../../policies/autoshard/lstm.ts";
import { AutoNetwork } from "../../policies/autoshard/network.ts";
import { autoCostNames, CostModel } from "../../policies/cost-model.ts";
import { playEpisodes } from "../../policies/episodes.ts";
import { dataOf, Weights } from "../../policies/policy-networks.ts";
import { policyStandardOf, poolFeatures } from "../../policies/table-pool.ts";

test("the LSTM's gradients are slopes of the sum of its states, by weights and inputs", (t) => {
  blockHasGradients(t, [[3]], (graph, [x]) => {
    return lstm(graph, x, { name: "lstm", episodes: 3, continues: false });
  });
});

test("an LSTM step follows its equations, in one pass of all steps and in passes of one", (t) => {
  // Weights of input, forget, cell and output gate: for x, for the previous state, and a bias.
  const [of, before, bias] = [
    [0.5, -1, 2, 1],
    [1, 0.5, -1, 2],
    [0.1, 0.2, 0.3, 0.4],
  ] as const;
  const logistic = (x: number) => 1 / (1 + Math.exp(-x));
  const inputs = [0.7, -0.4];
  let [state, cell] = [0, 0];
  const expected = inputs.map((x) => {
    const sums = of.map((own, i) => own * x + (before[i] ?? 0) * state + (bias[i] ?? 0));
    const [input = 0, forget = 0, update = 0, output = 0] = sums;
    cell = logistic(forget) * cell + logistic(input) * Math.tanh(update);
    state = logistic(output) * Math.tanh(cell);
    return state;
  });
  for (const steps of [2, 1]) {
    const kernels = exactKernels();
    const graph = new GraphBuilder(1);
    const continues = steps === 1;
    const made = graph.finish(lstm(graph, dataOf(graph), { name: "l", episodes: 1, continues }));
    const weights = new Weights(kernels, [made], 1);
    const set = (name: string, values: readonly number[]) => {
      valuesOf(parameterIn(kernels, weights.flat, weights.layout, name)).set(values);
    };
    set(
      "l.weight",
      of.flatMap((own, gate) => [own, before[gate] ?? 0]),
    );
    set("l.bias", bias);
    const network = weights.network(made, steps);
    const data = kernels.tensor([steps, 1]);
    const found = Array.from({ length: 2 / steps }, (_, pass) => {
      kernels.write(data, Float32Array.from(inputs.slice(pass * steps, (pass + 1) * steps)));
      return [...kernels.read(network.forward({ data }))];
    }).flat();
    for (const [step, own] of expected.entries()) {
      t.true(Math.abs((found[step] ?? 0) - own) < 1e-7, `${found[step]}, expected ${own}`);
    }
  }
});

testIf(testAll)("AutoShard's gradients are the slopes of a sum of its scores and values", (t) => {
  const kernels = exactKernels();
  const extent = { steps: 3, episodes: 2, devices: 2 };
  const tables = sizedTables(5, 1);
  const model = new CostModel(kernels, 1, autoCostNames);
  const network = new AutoNetwork(kernels, 3);
  const vectors = model.vectors(poolFeatures(kernels, tables, policyStandardOf(tables)));
  const known = {
    ...{ model, costVectors: vectors, policyVectors: vectors, hasCosts: true },
    bytes: tables.map(({ bytes }) => bytes),
  };
  const tasks = [
    [0, 1, 2],
    [4, 3, 1],
  ].map((own) => ({ tables: own, room: { devices: 2, bytes: Number.MAX_SAFE_INTEGER } }));
  const seen = network.seen(extent);
  const player = network.player(known, extent, seen);
  const scoresOfSteps: number[] = [];
  const random = new RandomStream(4, 1);
  playEpisodes(
    known,
    tasks,
    (state) => {
      const scores = player(state);
      scoresOfSteps.push(...scores);
      return scores;
    },
    random,
  );
  const drawn = (count: number) => Float32Array.from({ length: count }, () => random.normal());
  const [ofScores, ofValues] = [drawn(12), drawn(6)];
  const sumOf = (a: Float32Array, b: Float32Array) => {
    return a.reduce((sum, own, i) => sum + own * (b[i] ?? 0), 0);
  };
  const loss = () => {
    let sum = 0;
    network.learn(seen, extent, ({ scores, values }) => {
      sum = sumOf(scores, ofScores) + sumOf(values, ofValues);
      return { scores: ofScores, values: ofValues };
    });
    return sum;
  };
  t.is(network.weights.layout.parameters.length, 20);
  network.learn(seen, extent, ({ scores }) => {
    // Step by step, the devices got the same scores.
    for (const [i, score] of scores.entries()) {
      t.true(Math.abs(score - (scoresOfSteps[i] ?? Number.NaN)) < 1e-6, `${i}: ${score}`);
    }
    return { scores: ofScores, values: ofValues };
  });
  const error = worstError(network.weights, loss);
  t.true(error < 1e-4, `${error}`);
});
