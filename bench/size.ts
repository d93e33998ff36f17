// npm run size: the lines of each room beside its budget (rooms.ts). Fails where a room has
// outgrown its budget.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { excessOf, layers, nativeRooms, sizesOf } from "./rooms.ts";
import { walkLine } from "./walk.ts";

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

const rooms = [...layers, nativeRooms].flatMap((layer) => Object.keys(layer));
// The top folders alone: rooms within them are found on the way.
const tops = new Set(rooms.map((room) => room.split("/")[0] ?? room));
const sizes = sizesOf(new Map([...tops].flatMap((top) => [...linesIn(top)])));
for (const { room, lines, linesMax } of sizes) {
  console.log(`${room.padEnd(26)} ${String(lines).padStart(6)} of ${linesMax}`);
}
console.log(walkLine());
const excesses = sizes.flatMap((size) => excessOf(size) ?? []);
for (const excess of excesses) console.error(excess);
process.exitCode = excesses.length > 0 ? 1 : 0;
