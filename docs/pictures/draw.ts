// Draws pictures of the documents anew: `npm run draw -- charts`. Each is drawn by a program of its
// own, which is run with the rest of the command line.

import { spawnSync } from "node:child_process";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The programs, from `dist`, by the name that the command has for each. */
export const programs: Readonly<Record<string, string>> = {
  /** The README's picture, of the tree of actors and the tiers of memory. */
  picture: "docs/pictures/make.js",
  /** Growth and limits, measured first: `--draw` draws the rows of the last time. */
  charts: "bench/growth/pictures.js",
  /** Screenshots of the dashboard, of a run in a browser. */
  screens: "docs/pictures/screens.js",
  /** What plans cost beside what was predicted, of rows that a bench printed. */
  predictions: "packages/sharding/bench/picture.js",
  /** What deduplicated sessions save, of rows that a bench printed. */
  savings: "bench/dedup/picture.js",
};

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [name = "", ...flags] = process.argv.slice(2);
  process.exitCode = draw(name, flags);
}

/** Returns the exit code: 2 for a name that there is not. */
function draw(name: string, flags: readonly string[]): number {
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) {
    process.stderr.write(`npm run draw -- ${Object.keys(programs).join("|")}\n`);
    return 2;
  }
  const path = fileURLToPath(new URL(`../../${program}`, import.meta.url));
  const { status } = spawnSync(process.execPath, [path, ...flags], { stdio: "inherit" });
  return status ?? 1;
}
