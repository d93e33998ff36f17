// Prints the rollups whose code cache V8 rejects, as JSON. It runs in a process of its own, as
// processes of tests have other flags, all of which V8 compares.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readCache, scriptOf } from "../../src/ports/code-cache.ts";
import { collectAlone } from "../../src/ports/launcher.ts";

const [folder = ""] = process.argv.slice(2);
collectAlone();
const rejected = [...readCache(folder)].flatMap(([name, compiled]) => {
  const file = join(folder, name);
  const { cachedDataRejected } = scriptOf(file, readFileSync(file, "utf8"), compiled);
  return cachedDataRejected === false ? [] : [name];
});
process.stdout.write(JSON.stringify(rejected));
