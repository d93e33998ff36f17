// The files of tests by rooms: `npm test` runs a room's files in one worker, rolled up into one
// file, so that the product is loaded once for many files. A room is a folder of tests, or a folder
// in it. Names of tests are unique in a room.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A test file that begins with this line runs in a worker of its own; the line says why. */
const alone = /^\/\/ Runs alone: /m;

/** The rooms and their compiled files of tests, by paths relative to `folder` (dist/test). */
export function roomsOf(folder: string): Map<string, string[]> {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.js"))
    .sort();
  const rooms = new Map<string, string[]>();
  for (const file of files) {
    const places = file.split("/");
    const text = readFileSync(join(folder, file), "utf8");
    const room = alone.test(text) ? file.replace(/\.test\.js$/, "") : places.slice(0, 2).join("/");
    const name =
      places.length < 3 && !alone.test(text) ? (places.length < 2 ? "root" : `${places[0]}`) : room;
    const key = name.replaceAll("/", "-");
    rooms.set(key, [...(rooms.get(key) ?? []), file]);
  }
  return rooms;
}
