// The files of the repository for the tidiness tests: below the folder that the tests run in,
// without files that are built, installed or written by runs.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const rooms = [
  "src",
  "storage",
  "actors",
  "chaos",
  "cli",
  "examples",
  "bench",
  "test",
  "native",
  "docs",
  "packages",
  "deploy",
  ".ci",
];
const built = new Set(["native/build", "node_modules", "dist"]);

/** The paths of all files of the rooms and the root, relative to the root, sorted. */
export function listTree(): string[] {
  const top = readdirSync(".", { withFileTypes: true });
  // `.git` is a file in a git worktree, and names a folder of the machine.
  const files = top.flatMap((entry) => {
    return entry.isFile() && entry.name !== ".git" ? [entry.name] : [];
  });
  for (const room of rooms) {
    if (top.some(({ name }) => name === room)) files.push(...filesIn(room));
  }
  return files.sort();
}

function filesIn(folder: string): string[] {
  if (built.has(folder)) return [];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesIn(path);
    return entry.isFile() ? [path] : [];
  });
}

export function textOf(path: string): string {
  return readFileSync(path, "utf8");
}
