// The programs of threads and of processes as a few files instead of hundreds of modules, so that
// each starts in half of the processor time (docs/decisions/0019-threads-load-rollups.md). They are
// CommonJS, which Node reads and links at once: modules are found one after another. Packages stay
// where they are, but for zod, which has a hundred modules.

import { existsSync, readdirSync, readFileSync, rmSync, utimesSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";

const zodFolder = dirname(createRequire(import.meta.url).resolve("zod/package.json"));

const placesPlugin = {
  name: "places",
  resolveId(id, from) {
    if (id !== "zod" || from === undefined) return null;
    const file = fileURLToPath(import.meta.resolve(id, pathToFileURL(from)));
    return { id: file, moduleSideEffects: false };
  },
  /** Each module of ours finds its neighbours from where it was compiled, not from its rollup. */
  resolveImportMeta(property, { moduleId }) {
    if (property !== "url") return null;
    const path = JSON.stringify(`../${relative("dist", moduleId)}`);
    return `require("node:url").pathToFileURL(require("node:path").join(__dirname, ${path})).href`;
  },
  /** What V8 compiles of the rollups, with the flags that threads have: src/ports/code-cache.ts. */
  async generateBundle({ dir }, bundle) {
    if (!dir.endsWith("threads")) return;
    const { codeCacheName, packCache, scriptOf } = await import("./dist/src/ports/code-cache.js");
    const { collectAlone } = await import("./dist/src/ports/launcher.js");
    collectAlone();
    const compiled = Object.values(bundle).map(({ fileName, code }) => {
      setFlagsFromString("--no-lazy"); // All functions, also those that are called later.
      const script = scriptOf(join(dir, fileName), code);
      setFlagsFromString("--lazy");
      return [fileName, script.createCachedData()];
    });
    this.emitFile({ type: "asset", fileName: codeCacheName, source: packCache(new Map(compiled)) });
  },
  /** No file of an earlier build stays. */
  writeBundle({ dir }, bundle) {
    const left = readdirSync(dir).filter((name) => bundle[name] === undefined);
    for (const name of left) rmSync(join(dir, name));
    const cache = join(dir, "code-cache.bin");
    const now = new Date();
    if (existsSync(cache)) utimesSync(cache, now, now); // It is of the files that lie there now.
  },
};

const rolled = (dir, minBytes, input) => ({
  input,
  plugins: [placesPlugin],
  external: (id) => id !== "zod" && /^[^./]/.test(id),
  output: {
    ...{ dir: join("dist", dir), format: "cjs", experimentalMinChunkSize: minBytes },
    dynamicImportInCjs: dir !== "threads", // A script of the code cache cannot import.
    ...{ entryFileNames: "[name].cjs", chunkFileNames: "[name].cjs" },
    // As its licence asks.
    banner: ({ moduleIds }) =>
      moduleIds.some((id) => id.startsWith(zodFolder))
        ? `/* zod:\n${readFileSync(`${zodFolder}/LICENSE`, "utf8")}*/`
        : "",
  },
  onwarn(warning, warn) {
    // The compiler's own helper, at the top of a module that imports by a name it computes.
    if (warning.code === "THIS_IS_UNDEFINED") return;
    if (warning.code === "INVALID_ANNOTATION") return; // Zod's, for another bundler.
    warn(warning);
  },
});

export default [
  rolled("threads", 60_000, [
    "dist/actors/threads/thread-entry.js",
    "dist/chaos/faults/breaking-entry.js",
    "dist/chaos/faults/faulty-entry.js",
    "dist/src/wire/broker/broker-main.js",
    "dist/src/ports/cached-entry.js",
  ]),
  rolled("processes", 200_000, [
    "dist/index.js",
    "dist/cli/osiris.js",
    "dist/cli/support/broker-process.js",
    "dist/chaos/trials/process-entry.js",
  ]),
];
