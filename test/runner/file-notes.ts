// Loaded by AVA before each test file: notes the start of the file and the end of its thread, and
// lets V8 optimize less.

import { setFlagsFromString } from "node:v8";
import test from "ava";
import { note, testAllVariable } from "./notes.ts";
import { beginProfile, profileVariable } from "./profile.ts";

const file = decodeURI(test.meta.file)
  .replace(/^.*\/dist\/(test|rooms)\//, "")
  .replace(/\.test\.js$/, "");

/**
 * How much of a function V8 runs, in bytes of bytecode, until it considers to optimize it: 15 times
 * as much as usual. Few functions run so long in a test that their optimization pays: the room
 * `others` takes 74 processor seconds instead of 84, and `training` 53 instead of 60.
 */
const interruptBudgetBytes = 1_000_000;
if (process.env[testAllVariable] === undefined) {
  setFlagsFromString(`--interrupt-budget=${interruptBudgetBytes}`);
}

const begunMs = performance.now();

note({ kind: "begun", file });
process.on("exit", () => {
  note({ kind: "ended", file, seconds: (performance.now() - begunMs) / 1000 });
});

if (process.env[profileVariable] !== undefined) {
  const cost = beginProfile();
  process.on("exit", () => note({ kind: "cost", file, cost: cost() }));
}
