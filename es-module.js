// The ES module of the package, beside the CommonJS one that was rolled up: `import` gets the names
// of dist/processes/index.cjs by dist/index.mjs, and so the objects and classes that `require` gets.
// TypeScript has the same types for both; dist/index.d.cts says so of `require`
// (docs/decisions/0019-threads-load-rollups.md).

import { writeFileSync } from "node:fs";

const rollup = "processes/index.cjs";

/** Writes both files, for what the build has rolled up. */
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
