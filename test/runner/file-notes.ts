// Loaded by ava before each file of tests: notes when the file begins, and when
// its thread ends.

import test from "ava";
import { note } from "./notes.ts";
import { beginProfile, profileVariable } from "./profile.ts";

const file = decodeURI(test.meta.file)
  .replace(/^.*\/dist\/(test|rooms)\//, "")
  .replace(/\.test\.js$/, "");

const begunMs = performance.now();

note({ kind: "begun", file });
process.on("exit", () => {
  note({ kind: "ended", file, seconds: (performance.now() - begunMs) / 1000 });
});

if (process.env[profileVariable] !== undefined) {
  const cost = beginProfile();
  process.on("exit", () => note({ kind: "cost", file, cost: cost() }));
}
