// A thread with helpers, for threads.test.ts: it runs a layer in parts, posts a message, and ends
// when it receives one.

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
