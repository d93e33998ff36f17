// A thread of threads.test.ts that has helpers: it runs a layer in parts, says so, and ends when it
// is told to.

import { parentPort } from "node:worker_threads";
import { openKernels, useThreads } from "../../src/kernels/index.ts";

useThreads(4, 1);
const kernels = openKernels("native");
const [samples, inputs, outputs] = [256, 40, 24];
const x = kernels.tensor([samples, inputs]);
const out = kernels.tensor([samples, outputs]);
const w = kernels.tensor([outputs, inputs]);
kernels.linear(out, x, w, kernels.tensor([outputs]), false);
parentPort?.once("message", () => parentPort?.close());
parentPort?.postMessage("ran");
