// Writes the package's ES module, next to the rolled-up CommonJS module: `import` gets the names of
// dist/processes/index.cjs through dist/index.mjs, and thus the same objects and classes as
// `require`. TypeScript has the same types for both, as dist/index.d.cts states for `require`
// (docs/decisions/0019-threads-load-rollups.md).

import { writeFileSync } from "node:fs";

const rollup = "processes/index.cjs";

/** Writes both files for the rollups that the build has made. */
export function writeEsModule(rollups) {
  const files = rollups.flatMap(({ output }) => output);
  const { exports } = files.find(({ fileName, isEntry }) => isEntry && fileName === "index.cjs");
  write("index.mjs", [
    "// What `require` gets, by the names that `import` asks for.",
    `import osiris from "./${rollup}";`,
    "",
    "export const {",
    ...[...exports].sort().map((name) => `  ${name},`),
    "} = osiris;",
  ]);
  write("index.d.cts", [
    "// @ts-ignore TS1479: only types come from there; the code of `require` is CommonJS.",
    'export * from "./index.js";',
  ]);
}

function write(name, lines) {
  writeFileSync(new URL(`dist/${name}`, import.meta.url), `${lines.join("\n")}\n`);
}
