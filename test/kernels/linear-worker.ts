// One of the threads of native.test.ts: runs a layer whose weights and outputs lie in shared
// memory.

import { parentPort, workerData } from "node:worker_threads";
import { openKernels } from "../../src/kernels/index.ts";

const { memory, index, samples, inputs, outputs } = workerData as {
  memory: SharedArrayBuffer;
  index: number;
  samples: number;
  inputs: number;
  outputs: number;
};
const kernels = openKernels("native");
const w = kernels.view(memory, 32, [outputs, inputs]);
const first = 32 + 4 * outputs * inputs + index * 4 * samples * outputs;
const x = kernels.tensor([samples, inputs]);
kernels.uniform(x, [3, 4], 2, 0, 1);
const out = kernels.view(memory, first, [samples, outputs]);
for (let round = 0; round < 20; round++) {
  kernels.linear(out, x, w, kernels.tensor([outputs]), false);
}
parentPort?.postMessage(samples);
