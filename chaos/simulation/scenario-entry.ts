// The entry point of a thread that simulates the scenarios that it receives.

import { parentPort } from "node:worker_threads";
import type { Scenario } from "./scenario.ts";
import { simulate } from "./simulate.ts";

if (parentPort === null)
  throw new Error("scenario-entry.js is a thread's entry program: start it by the launcher");
const port = parentPort;
port.on("message", (scenario: Scenario) => {
  void simulate(scenario).then((verdict) => port.postMessage(verdict));
});
