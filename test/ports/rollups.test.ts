// The rollups of processes: what `import "osiris-train"` loads, and what `osiris` runs.

import { readdirSync, readFileSync } from "node:fs";
import test from "ava";
import * as modules from "../../index.ts";
import { entryFile } from "../../src/ports/entry-file.ts";

const compiled = new URL("../..", import.meta.url);

test("the package exports the rollup, which has the public names and no other", async (t) => {
  const manifest = readFileSync(new URL("../package.json", compiled), "utf8");
  const { exports } = JSON.parse(manifest) as { exports: { ".": { default: string } } };
  const file = new URL(exports["."].default.replace("./dist/", ""), compiled);
  t.is(file.href, new URL("processes/index.cjs", compiled).href);
  const rolled = (await import(file.href)) as Record<string, unknown>;
  const names = Object.keys(rolled).filter((name) => name !== "default");
  t.deepEqual(names.sort(), Object.keys(modules).sort());
});

test("the rollups of processes have each error once, and the command line loads one of them", (t) => {
  const file = entryFile("processes", "cli/osiris.js");
  t.is(file.href, new URL("processes/osiris.cjs", compiled).href, "`npm run build` made it");
  const folder = new URL("processes/", compiled);
  const texts = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), "utf8"));
  const classes = [
    ...texts.join("\n").matchAll(/^var (\w+Error) = class(?: \w+)? extends \S*TrainingError/gm),
  ].map(([, name]) => name);
  t.true(classes.includes("InvalidOptionError"));
  t.deepEqual(classes.sort(), [...new Set(classes)].sort());
});
