// The programs of threads and of processes as a few files instead of hundreds of modules, so that
// each starts in half of the processor time (docs/decisions/0019-threads-load-rollups.md). They are
// CommonJS, which Node reads and links at once: modules are found one after another. Packages stay
// where they are, but for zod, which has a hundred modules.

import { execFileSync } from "node:child_process";
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

/** The licence of a package that lies in a file of ours, as it asks. */
const licenceOf = (name) =>
  `/*! ${name}:\n${readFileSync(join("node_modules", name, "LICENSE"), "utf8")}*/`;

// The dashboard's page (web/) with the libraries that draw it: three files that no server but ours
// has to have (docs/decisions/0031-the-page.md).
const pagePlugin = {
  name: "page",
  /** It is compiled by itself: it alone has a document. Its types are checked by .ci/run. */
  buildStart() {
    execFileSync(join("node_modules", ".bin", "tsc"), ["-p", "web", "--noCheck"], { stdio: "inherit" });
  },
  resolveId(id, from) {
    if (from === undefined || /^[./]/.test(id)) return null;
    if (id === "uplot") return join(process.cwd(), "node_modules/uplot/dist/uPlot.esm.js");
    return fileURLToPath(import.meta.resolve(id, pathToFileURL(from)));
  },
  generateBundle() {
    const styles = ["node_modules/uplot/dist/uPlot.min.css", "web/page.css"];
    const css = styles.map((path) => readFileSync(path, "utf8")).join("\n");
    this.emitFile({ type: "asset", fileName: "page.css", source: css });
    const index = readFileSync("web/index.html", "utf8");
    this.emitFile({ type: "asset", fileName: "index.html", source: index });
  },
};

const page = {
  input: { page: "dist/web-build/web/main.js" },
  plugins: [pagePlugin],
  output: {
    ...{ dir: "dist/page", format: "es", entryFileNames: "[name].js" },
    banner: () => ["preact", "htm", "uplot"].map(licenceOf).join("\n"),
  },
};

export default [
  page,
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
