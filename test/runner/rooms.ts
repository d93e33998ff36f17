// Test files by rooms: `npm test` runs a room's files in one worker, rolled up into one file. The
// product is then loaded, and its functions compiled by V8, once for many files: storage's files
// took 244 processor seconds in 16 workers and 193 in one. Titles of tests are unique within a
// room.

import { readdirSync } from "node:fs";
import { join } from "node:path";

/**
 * Folders of test files, and their room; the first folder of this list that contains a file counts.
 * Tests of connections and of child processes have deadlines of seconds, so they run in other
 * threads than tests that compute for seconds.
 */
const rooms = [
  ["test/chaos/simulation/", "chaos-simulation"],
  ["test/chaos/processes/", "chaos-processes"],
  ...["actors", "chaos", "cli", "data", "exchange", "storage", "training", "wire"].map(
    (room) => [`test/${room}/`, room] as const,
  ),
  ["test/examples/", "cli"],
  ["test/fuzz/", "cli"],
  ["test/objects/", "wire"],
  ...["dashboard", "formats", "ingest", "serve"].map(
    (room) => [`packages/${room}/`, room] as const,
  ),
] as const;
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

function roomOf(file: string): string {
  return rooms.find(([folder]) => file.startsWith(folder))?.[1] ?? rest;
}
