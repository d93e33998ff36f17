// The code cache of the rollups: what V8 compiled of them at the build, so that a thread does not
// compile them again when it starts. V8 refuses the cache of another version of itself; what was
// written after the cache was made is compiled anew.
//
//   names · ends ║ what V8 compiled of the first · of the second …

import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { Script } from "node:vm";

/** The file of the cache, beside the rollups that it is of. */
export const codeCacheName = "code-cache.bin";

/** Whether a cache lies beside this file. */
export function hasCodeCache(file: string): boolean {
  const cache = join(dirname(file), codeCacheName);
  return statSync(cache, { throwIfNoEntry: false }) !== undefined;
}

/**
 * A rollup as a script whose value is a function, as Node wraps CommonJS. Errors tell the file name
 * that the script had at the build. `import()` finds nothing in it: V8 forgets where a script from
 * a cache imports. Rollups call `module.importModule` in its place (rolldown.config.js).
 */
export function scriptOf(filename: string, code: string, cachedData?: Uint8Array): Script {
  return new Script(`(function (exports, require, module, __dirname) { ${code}\n})`, {
    filename,
    ...(cachedData === undefined ? {} : { cachedData }),
  });
}

/** The cache of these scripts, as it lies in its file. */
export function packCache(compiled: ReadonlyMap<string, Uint8Array>): Uint8Array {
  let end = 0;
  const ends = [...compiled].map(([name, { length }]) => {
    end += length;
    return [name, end];
  });
  const head = Buffer.from(JSON.stringify(ends));
  const headBytes = Buffer.alloc(4);
  headBytes.writeUInt32LE(head.length);
  return Buffer.concat([headBytes, head, ...compiled.values()]);
}

/** Runs a rollup, and what it requires of its folder, from the cache there. Returns its exports. */
export function runCached(entry: string): unknown {
  const folder = dirname(entry);
  const { mtimeMs } = statSync(join(folder, codeCacheName));
  const cache = readCache(folder);
  const requirePackage = createRequire(entry);
  const loaded = new Map<string, { exports: unknown }>();
  const load = (name: string): unknown => {
    const before = loaded.get(name);
    if (before !== undefined) return before.exports;
    const module = { exports: {} as unknown, importModule };
    loaded.set(name, module);
    const file = join(folder, name);
    const isCurrent = statSync(file).mtimeMs <= mtimeMs;
    const cached = isCurrent ? cache.get(name) : undefined;
    const run = scriptOf(file, readFileSync(file, "utf8"), cached).runInThisContext();
    run(module.exports, require, module, folder);
    return module.exports;
  };
  const require = (id: string) =>
    id.startsWith("./") ? load(id.slice(2)) : (requirePackage(id) as unknown);
  return load(basename(entry));
}

function importModule(specifier: string): Promise<unknown> {
  return import(specifier);
}

/** What V8 compiled of each rollup of a folder; nothing where the cache is damaged. */
export function readCache(folder: string): ReadonlyMap<string, Uint8Array> {
  try {
    return unpack(readFileSync(join(folder, codeCacheName)));
  } catch {
    return new Map();
  }
}

function unpack(bytes: Buffer): Map<string, Uint8Array> {
  const dataFrom = 4 + bytes.readUInt32LE(0);
  const ends = JSON.parse(bytes.toString("utf8", 4, dataFrom)) as [name: string, end: number][];
  return new Map(
    ends.map(([name, end], i) => {
      const from = ends[i - 1]?.[1] ?? 0;
      return [name, bytes.subarray(dataFrom + from, dataFrom + end)];
    }),
  );
}
