// Loads the module of a custom model: one TypeScript or JavaScript file that imports only this
// package and zod, so that the hash of its contents identifies the model. Processes and threads
// load a module the same way, once per contents. The compiler is loaded with the first module, so
// that built-in models do not pay for it.
//
// Loading a module runs it. A job that comes over the network may name only the paths that the
// cluster allows (actors/jobs/allowed-paths.ts).

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { extname } from "node:path";
import { compileFunction } from "node:vm";
import * as blocks from "./all-blocks.ts";
import { type DefinedModel, defineModel, isDefinedModel } from "./define-model.ts";

/** A loaded module: its model and the hash that identifies it. */
export interface LoadedModule {
  readonly definition: DefinedModel;
  /** Hash of the file's contents. */
  readonly sha256: string;
}

/**
 * The file is no usable model module. The message ends the sentence "Expected `model.path` to be
 * …".
 */
export class UnusableModule extends Error {
  override readonly name = "UnusableModule";
}

const loaded = new Map<string, LoadedModule>();

/**
 * Loads the module, from the cache if its contents are known. @throws UnusableModule if its hash is
 * not `sha256`, or it defines no model
 */
export function loadModule(path: string, sha256: string | undefined): LoadedModule {
  const source = sourceOf(path);
  const found = createHash("sha256").update(source).digest("hex");
  if (sha256 !== undefined && found !== sha256) {
    throw new UnusableModule(
      `the module that the job began with, whose contents have the SHA-256 ${sha256.slice(0, 12)}…; ` +
        `they have ${found.slice(0, 12)}… now: put them back, or begin a new run`,
    );
  }
  const key = `${path}\n${found}`;
  const known = loaded.get(key) ?? { definition: definitionOf(path, source), sha256: found };
  loaded.set(key, known);
  return known;
}

const endings = [".ts", ".mts", ".js", ".mjs"];

function sourceOf(path: string): string {
  if (!endings.includes(extname(path))) {
    throw new UnusableModule(`a module, a file that ends in ${endings.join(", ")}`);
  }
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new UnusableModule(`a module that can be read (${messageOf(cause)})`, { cause });
  }
}

function definitionOf(path: string, source: string): DefinedModel {
  const exported: Exported = {};
  const run = compiled(path, source);
  try {
    run(exported, (name: string) => imported(name));
  } catch (cause) {
    if (cause instanceof UnusableModule) throw cause;
    throw new UnusableModule(`a module that runs; it throws: ${messageOf(cause)}`, { cause });
  }
  const { __JITI_ERROR__: wrong } = exported;
  if (wrong !== undefined) {
    const place = `line ${wrong.line}, column ${wrong.column + 1}`;
    throw new UnusableModule(
      `a module that compiles; it does not: ${wrong.message.trim()}, ${place}`,
    );
  }
  if (isDefinedModel(exported.default)) return exported.default;
  throw new UnusableModule(
    "a module whose default export is what `defineModel` returns; it has " +
      (exported.default === undefined ? "no default export" : "another one"),
  );
}

interface Exported {
  readonly default?: unknown;
  /**
   * The position of a syntax error: the compiler returns code that exports it, instead of throwing.
   */
  readonly __JITI_ERROR__?: {
    readonly line: number;
    readonly column: number;
    readonly message: string;
  };
}

type Run = (exported: object, require: (name: string) => unknown) => void;

/** Compiles the module to a function, because a thread cannot wait for an asynchronous import. */
function compiled(path: string, source: string): Run {
  const { createJiti } = createRequire(import.meta.url)("jiti") as typeof import("jiti");
  const compiler = createJiti(import.meta.url, { fsCache: false, moduleCache: false });
  try {
    const isTyped = extname(path).endsWith("ts");
    const code = compiler.transform({ source, filename: path, ts: isTyped, async: false });
    return compileFunction(code, ["exports", "require"], { filename: path }) as Run;
  } catch (cause) {
    throw new UnusableModule(`a module that compiles; it does not: ${messageOf(cause)}`, { cause });
  }
}

/** `require` of a model's module: only `osiris-train` and `zod` are allowed. */
function imported(name: string): unknown {
  if (name === "osiris-train") return { __esModule: true, defineModel, blocks };
  if (name === "zod") return createRequire(import.meta.url)("zod");
  throw new UnusableModule(
    "one file that imports only `osiris-train` and `zod`, since the hash of its contents identifies " +
      `the model; it imports \`${name}\``,
  );
}

export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
