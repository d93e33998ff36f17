// Loaded by AVA before each test file: notes the start of the file and the end of its thread.

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
