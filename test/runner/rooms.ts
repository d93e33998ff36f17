// The files of tests by rooms: `npm test` runs a room's files in one worker, rolled up into one
// file, so that the product is loaded once for many files. Titles of tests are unique in a room.

import { readdirSync } from "node:fs";

/** Folders whose own folders are rooms: each has work for half a minute. The others are rooms. */
const divided = ["actors", "chaos", "cli", "data", "storage", "training"];

/** The rooms and their compiled files of tests, by paths relative to `folder` (dist/test). */
export function roomsOf(folder: string): Map<string, string[]> {
  const rooms = new Map<string, string[]>();
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.js"))
    .sort();
  for (const file of files) {
    const [first = "", ...rest] = file.split("/").slice(0, -1);
    const room = divided.includes(first) ? [first, ...rest.slice(0, 1)].join("-") : first || "root";
    rooms.set(room, [...(rooms.get(room) ?? []), file]);
  }
  return rooms;
}
