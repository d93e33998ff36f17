// Builds a clone: compiles the TypeScript into dist/ and rolls up the programs
// (rolldown.config.js), while it compiles the kernels (native/build.sh). Stops everything at the
// first failure.
//
//   node build.js            the product: what `npm start` needs
//   node build.js --all      the tests, benches and examples too
//   node build.js --package  declarations and the kernels of all sets too: for `npm pack`
//
// Types are checked only with the declarations of a package, by the same run of the compiler;
// otherwise `npm run check` checks them. Parts are rebuilt only where a source is newer than the
// last build.

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "rolldown";
import { writeEsModule } from "./es-module.js";
import { writeOptionComments } from "./option-comments.js";

const product = ["src", "storage", "actors", "chaos", "cli", "packages"];
const beside = ["examples", "bench", "docs", "test"];
const configuration = ["index.ts", "internal.ts", "package.json", "tsconfig.json", "tsconfig.product.json"];
const programs = ["build.js", "rolldown.config.js", "es-module.js", "option-comments.js"];
/** Stamp file: its text is the kind of the last build, its time is when that ended. */
const stamp = "dist/.built";

const isPackage = process.argv.includes("--package");
// A clone with compiled tests keeps them current.
const isAll = process.argv.includes("--all") || existsSync("dist/test");
const kind = isAll ? "all" : "product";
const declaredKind = `${kind}, with declarations`;
const project = isAll ? "." : "tsconfig.product.json";
const startedMs = Date.now();
const running = new Set();

process.chdir(import.meta.dirname);
await Promise.all([compileKernels(), compileTypeScript()]);

async function compileKernels() {
  await run("sh", [isPackage ? "native/package.sh" : "native/build.sh"]);
}

async function compileTypeScript() {
  if (isCurrent()) return;
  rmSync(stamp, { force: true });
  // The compiler's state file would make the rollups look stale (src/ports/entry-file.ts).
  rmSync("dist/.tsbuildinfo", { force: true });
  // Several checkers would each check the types that all files share: 32 CPU-s instead of 24.
  const options = isPackage ? ["--checkers", "1"] : ["--noCheck", "--declaration", "false"];
  const alone = ["--incremental", "false", "--tsBuildInfoFile", "null"];
  await run("node_modules/.bin/tsc", ["-p", project, ...options, ...alone]);
  for (const folder of [...product, ...beside]) removeLeftOvers(folder);
  const { default: rollups } = await import("./rolldown.config.js");
  writeEsModule(await build(rollups.map((one) => ({ ...one, onLog: tell }))));
  if (isPackage) await writeOptionComments();
  writeFileSync(stamp, isPackage ? declaredKind : kind);
  say(`compiled and rolled up the TypeScript in ${((Date.now() - startedMs) / 1000).toFixed(0)} s`);
}

/** Whether the last build was of this kind, and no source has changed since. */
function isCurrent() {
  const builtMs = changedMs(stamp);
  if (builtMs === 0 || changedMs("dist/.tsbuildinfo") > builtMs) return false;
  const built = readFileSync(stamp, "utf8");
  if (built !== declaredKind && (isPackage || built !== kind)) return false;
  const sources = [...product, ...(isAll ? beside : []), ...configuration, ...programs];
  return sources.every((source) => newestMs(source) <= builtMs);
}

function newestMs(path) {
  const status = statSync(path);
  if (!status.isDirectory()) return status.mtimeMs;
  const within = readdirSync(path).map((name) => newestMs(join(path, name)));
  return Math.max(status.mtimeMs, ...within); // Removing a file changes its folder's time.
}

function changedMs(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** Removes outputs of earlier builds whose source no longer exists. */
function removeLeftOvers(folder) {
  const compiled = join("dist", folder);
  if (!existsSync(compiled)) return;
  for (const name of readdirSync(compiled, { recursive: true, encoding: "utf8" })) {
    const [, source] = name.match(/^(.*?)(\.d\.ts|\.js)$/) ?? [];
    if (source !== undefined && !existsSync(join(folder, `${source}.ts`))) {
      rmSync(join(compiled, name));
    }
  }
}

/** Prints rolldown's warnings, except on modules that only some threads import dynamically. */
function tell(level, { code, message }) {
  if (level === "warn" && code !== "INEFFECTIVE_DYNAMIC_IMPORT") say(message);
}

/** Runs a program to its end. If it fails, the build ends, with all its other programs. */
function run(program, args) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: ["ignore", 2, 2] });
    running.add(child);
    child.on("error", (error) => fail(`cannot run ${program}: ${error.message}`));
    child.on("close", (code, signal) => {
      running.delete(child);
      if (code === 0) resolve();
      else fail(`${[program, ...args].join(" ")} ended with ${signal ?? `exit code ${code}`}`);
    });
  });
}

function fail(reason) {
  if (process.exitCode !== undefined) return; // The first failure has ended the others.
  process.exitCode = 1;
  say(`the build failed: ${reason}`);
  for (const child of running) child.kill();
}

function say(line) {
  process.stderr.write(`osiris: ${line}\n`);
}
