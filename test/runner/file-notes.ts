// Loaded by ava before each file of tests: notes when the file begins, and when
// its thread ends.

import test from "ava";
import { note } from "./notes.ts";

const file = decodeURI(test.meta.file)
  .replace(/^.*\/dist\/test\//, "")
  .replace(/\.test\.js$/, "");

const begunMs = performance.now();

note({ kind: "begun", file });
process.on("exit", () => {
  note({ kind: "ended", file, seconds: (performance.now() - begunMs) / 1000 });
});
