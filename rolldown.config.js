// Rolls up the programs of threads and processes into a few files instead of hundreds of modules,
// so that each starts in half of the processor time (docs/decisions/0019-threads-load-rollups.md).
// The files are CommonJS, which Node reads and links in one go, whereas it resolves ES modules one
// after the other. In threads, all packages stay outside except zod, which has a hundred modules;
// in processes, packages stay outside that few commands load. Also bundles the dashboard's page.

import { existsSync, readdirSync, readFileSync, rmSync, utimesSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";

const zodFolder = dirname(createRequire(import.meta.url).resolve("zod/package.json"));

/** Packages with many modules that every command loads: the rollups of processes include them. */
const loadedByAll = /^(@msgpack|@nats-io|apache-arrow\/fb|cli-progress|commander|flatbuffers|hyparquet|hyparquet-writer|lru-cache|nats|string-width|tweetnacl|xstate|yaml)(\/|$)/;

/** The licences of the packages of these modules, which the licences require to be shipped. */
function licencesOf(modules) {
  const folders = modules.flatMap((id) => id.match(/^.*\/node_modules\/(@[^/]+\/)?[^/]+(?=\/)/)?.[0] ?? []);
  return [...new Set(folders)].sort().map((folder) => {
    const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
    if (file === undefined) throw new Error(`${folder} has no file with its licence`);
    const name = folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length);
    return `${name}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  }).join(`\n${"=".repeat(80)}\n\n`);
}

const placesPlugin = {
  name: "places",
  resolveId(id, from) {
    if (id !== "zod" || from === undefined) return null;
    return { id: createRequire(from).resolve(id).replace(/\.cjs$/, ".js"), moduleSideEffects: false };
  },
  /** Makes `import.meta.url` of our modules the place where each was compiled, not its rollup. */
  transform(code, id) {
    if (id.startsWith(zodFolder) || !code.includes("import.meta.url")) return null;
    const path = JSON.stringify(`../${relative("dist", id)}`);
    return code.replaceAll("import.meta.url", `placeOfModule(${path})`);
  },
  /** Redirects imports that are left after the rollup: of a package, or of a user's module. */
  renderChunk: (code) =>
    code.replace(/\bawait import\(/g, "await importModule(").replace("importByNode(", "import("),
  /**
   * Writes V8's code cache of the rollups, with the flags of threads (src/ports/code-cache.ts): for
   * threads of all functions, for processes of those that run at the start, as a command calls few
   * others.
   */
  async generateBundle({ dir }, bundle) {
    const { codeCacheName, packCache, scriptOf } = await import("./dist/src/ports/code-cache.js");
    const { collectAlone } = await import("./dist/src/ports/launcher.js");
    collectAlone();
    const chunks = Object.values(bundle).filter(({ code }) => code !== undefined);
    const compiled = chunks.map(({ fileName, code }) => {
      if (dir.endsWith("threads")) setFlagsFromString("--no-lazy");
      const script = scriptOf(join(dir, fileName), code);
      setFlagsFromString("--lazy");
      return [fileName, script.createCachedData()];
    });
    this.emitFile({ type: "asset", fileName: codeCacheName, source: packCache(new Map(compiled)) });
    const modules = chunks.flatMap(({ moduleIds }) => moduleIds);
    this.emitFile({ type: "asset", fileName: "LICENSES.txt", source: licencesOf(modules) });
  },
  /** Removes files of earlier builds. */
  writeBundle({ dir }, bundle) {
    const left = readdirSync(dir).filter((name) => bundle[name] === undefined);
    for (const name of left) rmSync(join(dir, name));
    const cache = join(dir, "code-cache.bin");
    const now = new Date();
    if (existsSync(cache)) utimesSync(cache, now, now); // Marks the cache as newer than its files.
  },
};

/**
 * The URL where a module was compiled. As a declaration, it is hoisted above all code of its file.
 */
const placeOfModule = `function placeOfModule(path) {
  return require("node:url").pathToFileURL(require("node:path").join(__dirname, path)).href;
}`;

/** A rollup that runs from the code cache imports through its loader (src/ports/code-cache.ts). */
const importModule = `
var importModule = module.importModule ?? ((specifier) => importByNode(specifier));`;

const rolled = (dir, input) => ({
  input,
  platform: "node",
  plugins: [placesPlugin],
  external: (id) =>
    id !== "zod" && !(dir === "processes" && loadedByAll.test(id)) && /^[^./]/.test(id),
  // A command loads the modules behind the names that it imports from these lists, and no others.
  treeshake: { moduleSideEffects: (id) => !/\/dist\/(index|internal)\.js$/.test(id) },
  output: {
    dir: join("dist", dir),
    format: "cjs",
    dynamicImportInCjs: dir !== "threads", // A thread loads everything at its start.
    entryFileNames: "[name].cjs",
    chunkFileNames: "[name].cjs",
    strict: true,
    intro: dir === "threads" ? placeOfModule : placeOfModule + importModule,
  },
});

/** The licence of a package that the page includes, which the licence requires. */
const licenceOf = (name) =>
  `/*! ${name}:\n${readFileSync(join("node_modules", name, "LICENSE"), "utf8")}*/`;

// The dashboard's page (web/) with its libraries: three files, so that the page needs no other
// server than ours (docs/decisions/0031-the-dashboard-is-a-web-page.md). .ci/run checks its types.
const pagePlugin = {
  name: "page",
  resolveId(id, from) {
    if (from === undefined || /^[./]/.test(id)) return null;
    if (id === "uplot") return join(process.cwd(), "node_modules/uplot/dist/uPlot.esm.js");
    return null;
  },
  generateBundle() {
    const styles = ["node_modules/uplot/dist/uPlot.min.css", "packages/dashboard/page/page.css"];
    const css = styles.map((path) => readFileSync(path, "utf8")).join("\n");
    this.emitFile({ type: "asset", fileName: "page.css", source: css });
    const index = readFileSync("packages/dashboard/page/index.html", "utf8");
    this.emitFile({ type: "asset", fileName: "index.html", source: index });
  },
};

const page = {
  input: { page: "packages/dashboard/page/main.ts" },
  platform: "browser",
  plugins: [pagePlugin],
  output: {
    ...{ dir: "dist/page", format: "es", entryFileNames: "[name].js" },
    banner: () => ["preact", "htm", "uplot", "yaml"].map(licenceOf).join("\n"),
  },
};

// The tests of each room as one file (test/runner/rooms.ts), where tests are compiled.
const tests = "dist";
const rooms = existsSync("dist/test") ? (await import("./dist/test/runner/rooms.js")).roomsOf(tests) : new Map();
const roomsPlugin = {
  name: "rooms",
  resolveId: (id) => (rooms.has(id.slice("room:".length)) ? id : null),
  load(id) {
    if (!id.startsWith("room:")) return null;
    const files = rooms.get(id.slice("room:".length));
    return files.map((file) => `import ${JSON.stringify(join(process.cwd(), tests, file))};`).join("\n");
  },
  transform(code, id) {
    if (!code.includes("import.meta.")) return null;
    const path = JSON.stringify(`../${relative("dist", id)}`);
    return code
      .replaceAll("import.meta.url", `placeOfModule(${path})`)
      .replaceAll("import.meta.dirname", `folderOfModule(${path})`);
  },
};
const rolledRooms = {
  input: Object.fromEntries([...rooms.keys()].map((room) => [room, `room:${room}`])),
  platform: "node",
  plugins: [roomsPlugin],
  external: (id) => !id.startsWith("room:") && /^[^./]/.test(id),
  output: {
    ...{ dir: "dist/rooms", format: "es", entryFileNames: "[name].test.js", chunkFileNames: "[name].js" },
    cleanDir: true,
    intro: `import { fileURLToPath as pathOfModule } from "node:url";
function placeOfModule(path) { return new URL(path, import.meta.url).href; }
function folderOfModule(path) { return pathOfModule(new URL(".", placeOfModule(path))).replace(/\\/$/, ""); }`,
  },
};

export default [
  page,
  ...(rooms.size === 0 ? [] : [rolledRooms]),
  rolled("threads", {
    "thread-entry": "dist/actors/threads/thread-entry.js",
    "breaking-entry": "dist/chaos/faults/breaking-entry.js",
    "faulty-entry": "dist/chaos/faults/faulty-entry.js",
    "broker-main": "dist/src/wire/broker/broker-main.js",
    "object-service": "dist/src/objects/object-service.js",
    "cached-entry": "dist/src/ports/cached-entry.js",
  }),
  rolled("processes", {
    index: "dist/index.js",
    osiris: "dist/cli/osiris.js",
    "broker-process": "dist/cli/support/broker-process.js",
    "process-entry": "dist/chaos/trials/process-entry.js",
  }),
];
