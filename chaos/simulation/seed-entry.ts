// The entry of a thread that simulates the seeds that it is told.

import { parentPort } from "node:worker_threads";
import { drawScenario } from "./scenario.ts";
import type { SeedTask } from "./seeds.ts";
import { simulate } from "./simulate.ts";

if (parentPort === null) throw new Error("seed-entry.js is started as a thread");
const port = parentPort;
port.on("message", ({ seed, kinds }: SeedTask) => {
  void simulate(drawScenario(seed, kinds)).then((verdict) => port.postMessage(verdict));
});
