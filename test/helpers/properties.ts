// fast-check with a fixed seed, unless OSIRIS_SEED names another: runs are repeatable, and a
// failure recurs. Lists and texts reach the longest length that a property states; by default,
// fast-check draws at most about ten elements. A property that names no number of runs has as many
// as fast-check's default in `npm run test:all`.

import fc from "fast-check";
import { rounds } from "./thinned.ts";

const seed = Number(process.env.OSIRIS_SEED ?? 1);
const numRuns = rounds("runs of a property", 40, 100);
fc.configureGlobal({ seed, numRuns, defaultSizeToMaxWhenMaxSpecified: true });

export { default as fc } from "fast-check";
