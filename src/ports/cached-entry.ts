// The entry of a thread that starts from the code cache: runs the rollup that its argument names.

import { runCached } from "./code-cache.ts";

const [, , entry = ""] = process.argv;
runCached(entry);
