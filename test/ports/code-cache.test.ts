// The code cache of the rollups of threads: V8 takes it, and what changed after it was made, or is
// damaged, is compiled anew.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
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

test("V8 takes the cache of every rollup of a thread", (t) => {
  const entry = fileURLToPath(entryFile("threads", "actors/threads/thread-entry.js"));
  const folder = join(entry, "..");
  t.true(hasCodeCache(entry), "`npm run build` made it");
  const cache = readCache(folder);
  t.true(["thread-entry.cjs", "device-program.cjs"].every((name) => cache.has(name)));
  const program = fileURLToPath(new URL("./rejected-caches.js", import.meta.url));
  const said = execFileSync(process.execPath, [program, folder], { encoding: "utf8" });
  t.deepEqual(JSON.parse(said), []);
  for (const name of cache.keys()) {
    const code = readFileSync(join(folder, name), "utf8");
    t.notRegex(code, /^(?! *(\/\/|\*)).*\bimport\(/m, `${name} imports nothing while it runs`);
  }
});

/** A folder with a rollup of two files and its cache. Returns what the rollup says when it runs. */
function folderOf(t: ExecutionContext) {
  const folder = join(mkdtempSync(join(tmpdir(), "osiris-code-")), "threads");
  mkdirSync(folder);
  t.teardown(() => rmSync(join(folder, ".."), { recursive: true, force: true }));
  const said: unknown[] = [];
  (globalThis as { sayCached?: unknown }).sayCached = (value: unknown) => said.push(value);
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
    return said.pop();
  };
  return { folder, write, run };
}

test.serial("a rollup runs from its cache, and anew what was written after it", (t) => {
  const { folder, write, run } = folderOf(t);
  t.deepEqual(run(), [1, folder]);
  // As long as before: V8 itself compares no more than the length.
  write("other.cjs", "exports.value = 2;", 200);
  t.deepEqual(run(), [2, folder]);
});

test.serial("a damaged cache is left alone", (t) => {
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
