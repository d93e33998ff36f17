// npm run size: the lines of the core, each package and each other folder beside its budget
// (rooms.ts). Fails where one has outgrown its budget.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { excessOf, sizesOf } from "./rooms.ts";
import { walkLines } from "./walk.ts";

const isCode = /\.(ts|cc|h|sh)$/;
const built = new Set(["native/build"]);

/** Lines of each file of code in `path`, a folder or a file. */
function* linesIn(path: string): Generator<[path: string, lines: number]> {
  if (built.has(path)) return;
  if (statSync(path).isDirectory()) {
    for (const name of readdirSync(path)) yield* linesIn(join(path, name));
  } else if (isCode.test(path)) {
    yield [path, readFileSync(path, "utf8").split("\n").length - 1];
  }
}

const folders = ["src", "storage", "actors", "chaos", "packages", "cli", "examples", "docs"];
const tops = [...folders, "bench", "test", "native", "index.ts", "internal.ts"];
const sizes = sizesOf(new Map(tops.flatMap((top) => [...linesIn(top)])));
for (const { part, lines, linesMax } of sizes) {
  console.log(`${part.padEnd(26)} ${String(lines).padStart(6)} of ${linesMax}`);
}
for (const line of walkLines()) console.log(line);
const excesses = sizes.flatMap((size) => excessOf(size) ?? []);
for (const excess of excesses) console.error(excess);
process.exitCode = excesses.length > 0 ? 1 : 0;
