// The rollups of processes: those that `import "osiris-train"` loads, and those that `osiris` runs.

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import test from "ava";
import * as modules from "../../index.ts";
import { entryFile } from "../../src/ports/entry-file.ts";

const compiled = new URL("../..", import.meta.url);

test("the package has exactly its public names, the same by `import` and by `require`", async (t) => {
  // By the package's own name, as a user's program finds it in node_modules.
  const name = "osiris-train";
  const require = createRequire(import.meta.url);
  t.is(pathToFileURL(require.resolve(name)).href, new URL("processes/index.cjs", compiled).href);
  const required = require(name) as Record<string, unknown>;
  const imported = (await import(name)) as Record<string, unknown>;
  t.is(imported, await import(new URL("index.mjs", compiled).href));
  t.deepEqual(Object.keys(required).sort(), Object.keys(modules).sort());
  t.deepEqual(Object.keys(imported), Object.keys(modules).sort());
  const others = Object.keys(modules).filter((key) => imported[key] !== required[key]);
  t.deepEqual(others, [], "`instanceof` works across `import` and `require`");
  t.is(typeof imported.Cluster, "function");
});

test("process rollups have each error class once, and the command line loads one rollup", (t) => {
  const file = entryFile("processes", "cli/osiris.js");
  t.is(file.href, new URL("processes/osiris.cjs", compiled).href, "`npm run build` made it");
  const folder = new URL("processes/", compiled);
  const texts = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), "utf8"));
  const classes = [
    ...texts.join("\n").matchAll(/^var (\w+Error) = class(?: \w+)? extends \S*errorClass\(/gm),
  ].map(([, name]) => name);
  t.true(classes.includes("InvalidOptionError"));
  t.deepEqual(classes.sort(), [...new Set(classes)].sort());
});
