// The entry of a thread that starts from the code cache: runs the rollup named by its argument.

import { runCached } from "./code-cache.ts";

const [, , entry = ""] = process.argv;
runCached(entry);
