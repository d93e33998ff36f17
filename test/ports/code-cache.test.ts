// The V8 code cache of thread rollups: V8 accepts it, and rollups that changed after it was made
// are compiled anew.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test, { type ExecutionContext } from "ava";
import {
  codeCacheName,
  hasCodeCache,
  packCache,
  readCache,
  runCached,
  scriptOf,
} from "../../src/ports/code-cache.ts";
import { entryFile } from "../../src/ports/entry-file.ts";
import { startDirectory } from "../data/data-files.ts";

test("V8 accepts the code cache of every thread rollup", (t) => {
  const entry = fileURLToPath(entryFile("threads", "actors/threads/thread-entry.js"));
  const folder = join(entry, "..");
  t.true(hasCodeCache(entry), "`npm run build` made it");
  const cache = readCache(folder);
  t.true(["thread-entry.cjs", "device-program.cjs"].every((name) => cache.has(name)));
  t.deepEqual(rejectedOf(folder), []);
  for (const name of cache.keys()) {
    const code = readFileSync(join(folder, name), "utf8");
    t.notRegex(code, /^(?! *(\/\/|\*)).*\bimport\(/m, `${name} imports nothing while it runs`);
  }
});

test("V8 accepts the code cache of every command line rollup", (t) => {
  const entry = fileURLToPath(entryFile("processes", "cli/osiris.js"));
  t.true(hasCodeCache(entry), "`npm run build` made it");
  t.true(readCache(join(entry, "..")).has("osiris.cjs"));
  t.deepEqual(rejectedOf(join(entry, "..")), []);
  // A script from a cache cannot import: the rollup asks its host, or else Node.
  for (const name of readCache(join(entry, "..")).keys()) {
    const text = readFileSync(join(entry, "..", name), "utf8");
    const code = text.replace(/\/\*[\s\S]*?\*\//g, "");
    const imports = code.match(/(?<![.\w])import\(/g)?.length ?? 0;
    t.is(imports, code.includes("importModule(") ? 1 : 0, name);
  }
  t.is(typeof runCached(entry), "object");
});

test("a rollup that runs from its cache imports packages and modules", async (t) => {
  const { folder, write, run } = folderOf(t);
  const code = `globalThis.sayCached(module.importModule("node:path"));`;
  write("entry.cjs", code, 200);
  t.is(typeof ((await run()) as { join?: unknown }).join, "function");
  t.true(folder.endsWith("threads"));
});

/** The rollups of a folder whose cache V8 rejects, tested in a separate process. */
function rejectedOf(folder: string): unknown {
  const program = fileURLToPath(new URL("./rejected-caches.js", import.meta.url));
  return JSON.parse(execFileSync(process.execPath, [program, folder], { encoding: "utf8" }));
}

/** Makes a folder with a rollup of two files and its cache; `run` returns the rollup's output. */
function folderOf(t: ExecutionContext) {
  const folder = join(startDirectory(t), "threads");
  mkdirSync(folder);
  const values: unknown[] = [];
  (globalThis as { sayCached?: unknown }).sayCached = (value: unknown) => values.push(value);
  const write = (name: string, content: string | Uint8Array, seconds: number) => {
    writeFileSync(join(folder, name), content);
    utimesSync(join(folder, name), seconds, seconds);
  };
  const files = {
    "entry.cjs": 'globalThis.sayCached([require("./other.cjs").value, __dirname]);',
    "other.cjs": "exports.value = 1;",
  };
  const compiled = new Map<string, Uint8Array>();
  for (const [name, code] of Object.entries(files)) {
    write(name, code, 100);
    compiled.set(name, scriptOf(join(folder, name), code).createCachedData());
  }
  write(codeCacheName, packCache(compiled), 100);
  const run = () => {
    runCached(join(folder, "entry.cjs"));
    return values.pop();
  };
  return { folder, write, run };
}

test.serial("a rollup runs from its cache, except for files written after it", (t) => {
  const { folder, write, run } = folderOf(t);
  t.deepEqual(run(), [1, folder]);
  // The same length as before: V8 itself compares only lengths.
  write("other.cjs", "exports.value = 2;", 200);
  t.deepEqual(run(), [2, folder]);
});

test("a code cache of another architecture is ignored, as V8 would crash in it", (t) => {
  const { folder, write } = folderOf(t);
  t.is(readCache(folder).size, 2);
  const text = readFileSync(join(folder, codeCacheName)).toString("latin1");
  const other = text.replace(`-${process.arch}"`, `-${"z".repeat(process.arch.length)}"`);
  t.not(other, text);
  write(codeCacheName, Buffer.from(other, "latin1"), 100);
  t.is(readCache(folder).size, 0);
});

test.serial("a damaged code cache is ignored", (t) => {
  const { folder, write, run } = folderOf(t);
  for (const damaged of [
    "",
    "nothing of the kind",
    readFileSync(join(folder, codeCacheName)).subarray(0, 90),
  ]) {
    write(codeCacheName, damaged, 100);
    t.deepEqual(run(), [1, folder]);
  }
});
