// The code cache of the rollups: V8's compiled code of them, which the build stores so that a
// thread does not compile them when it starts. V8 rejects a cache of another V8 version, but
// crashes in one of another architecture. A rollup that is newer than the cache is compiled again.
//
//   platform · names · ends ║ compiled code of the first rollup · of the second …

import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { Script } from "node:vm";

/** Name of the cache's file, in the folder of its rollups. */
export const codeCacheName = "code-cache.bin";

/** The system and architecture for which V8 compiles. */
const platform = `${process.platform}-${process.arch}`;

/** Whether the folder of this file has a code cache. */
export function hasCodeCache(file: string): boolean {
  const cache = join(dirname(file), codeCacheName);
  return statSync(cache, { throwIfNoEntry: false }) !== undefined;
}

/**
 * A rollup as a script whose value is a function, as Node wraps CommonJS. Stack traces have the
 * file name of the build. `import()` does not work in the script, as V8 does not cache how it
 * resolves imports: rollups call `module.importModule` instead (rolldown.config.js).
 */
export function scriptOf(filename: string, code: string, cachedData?: Uint8Array): Script {
  return new Script(`(function (exports, require, module, __dirname) { ${code}\n})`, {
    filename,
    ...(cachedData === undefined ? {} : { cachedData }),
  });
}

/** Encodes the compiled code of scripts, by name, as the contents of the cache's file. */
export function packCache(compiled: ReadonlyMap<string, Uint8Array>): Uint8Array {
  let end = 0;
  const ends = [...compiled].map(([name, { length }]) => {
    end += length;
    return [name, end];
  });
  const head = Buffer.from(JSON.stringify({ platform, ends }));
  const headBytes = Buffer.alloc(4);
  headBytes.writeUInt32LE(head.length);
  return Buffer.concat([headBytes, head, ...compiled.values()]);
}

/** Runs a rollup, and the rollups that it requires, from the code cache. Returns its exports. */
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

/**
 * The compiled code of each rollup in a folder; empty if the cache is missing, corrupt, or of
 * another platform.
 */
export function readCache(folder: string): ReadonlyMap<string, Uint8Array> {
  try {
    return unpack(readFileSync(join(folder, codeCacheName)));
  } catch {
    return new Map();
  }
}

function unpack(bytes: Buffer): Map<string, Uint8Array> {
  const dataFrom = 4 + bytes.readUInt32LE(0);
  const head = JSON.parse(bytes.toString("utf8", 4, dataFrom)) as {
    readonly platform: string;
    readonly ends: readonly [name: string, end: number][];
  };
  if (head.platform !== platform) return new Map();
  return new Map(
    head.ends.map(([name, end], i) => {
      const from = head.ends[i - 1]?.[1] ?? 0;
      return [name, bytes.subarray(dataFrom + from, dataFrom + end)];
    }),
  );
}
