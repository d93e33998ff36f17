// The files of tests by rooms: `npm test` runs a room's files in one worker, rolled up into one
// file. The product is loaded, and its functions are compiled by V8, once for many files: storage's
// files took 244 processor seconds in 16 workers and 193 in one. Titles of tests are unique in a
// room.

import { readdirSync } from "node:fs";

/**
 * Folders that are rooms; a file belongs to the first folder here that contains it. Tests of
 * connections have deadlines of seconds, so they run in another thread than tests that compute
 * for seconds.
 */
const rooms = [
  ...[
    "packages/dashboard/server",
    "chaos/simulation",
    "chaos/processes",
    "actors",
    "bench",
    "chaos",
    "cli",
  ],
  ...["data", "examples", "exchange", "storage", "training", "wire"],
];
/** The room of all other files, which compute. */
const rest = "others";

/** The rooms and their compiled files of tests, by paths relative to `folder` (dist/test). */
export function roomsOf(folder: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.js"))
    .sort();
  for (const file of files) {
    const room = rooms.find((one) => file.startsWith(`${one}/`))?.replace("/", "-") ?? rest;
    found.set(room, [...(found.get(room) ?? []), file]);
  }
  return found;
}
