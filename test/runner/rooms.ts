// Test files by rooms: `npm test` runs a room's files in one worker, rolled up into one file. The
// product is then loaded, and its functions compiled by V8, once for many files: storage's files
// took 244 processor seconds in 16 workers and 193 in one. Titles of tests are unique within a
// room.

import { readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * Folders that are rooms; a file belongs to the first folder of this list that contains it. Tests
 * of connections have deadlines of seconds, so they run in another thread than tests that compute
 * for seconds.
 */
const rooms = [
  ...["chaos/simulation", "chaos/processes", "actors", "bench", "chaos", "cli"],
  ...["data", "examples", "exchange", "storage", "training", "wire"],
];
/** The room of all other files; their tests compute. */
const rest = "others";

/** The compiled test files of each room, by paths relative to `folder` (dist/test). */
export function roomsOf(folder: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const file of testFilesIn(folder)) {
    const room = roomOf(file);
    found.set(room, [...(found.get(room) ?? []), file]);
  }
  return found;
}

/** The compiled files of tests, of the core and of the packages, sorted. */
export function testFilesIn(folder: string): string[] {
  const isTest = /^(test|packages\/\w+\/test)\/.*\.test\.js$/;
  return ["test", "packages"]
    .flatMap((top) =>
      readdirSync(join(folder, top), { recursive: true, encoding: "utf8" }).map((name) =>
        join(top, name),
      ),
    )
    .filter((path) => isTest.test(path))
    .sort();
}

/** `packages/serve/test/…` lies in the room `serve`, `test/actors/…` in `actors`. */
function roomOf(file: string): string {
  const [, house] = file.match(/^packages\/(\w+)\//) ?? [];
  if (house !== undefined) return house;
  return rooms.find((one) => file.startsWith(`test/${one}/`))?.replace("/", "-") ?? rest;
}
