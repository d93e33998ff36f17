// Locates and loads the native addon: the addon compiled on this machine, else the prebuilt addon
// of the package. The code that builds it is in another file, as every thread loads this one.

import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { InputUnusableError } from "../errors/errors.ts";

/**
 * The folder native/ of this package, from src/ports, dist/src/ports or the rollups in
 * dist/threads.
 */
export function nativeFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const up of ["../..", "../../.."]) {
    const folder = join(here, up, "native");
    if (existsSync(join(folder, "build.sh"))) return folder;
  }
  return join(here, "../../../native");
}

/** The path of the addon that is built on this machine, whether it exists or not. */
export function addonPath(): string {
  return join(nativeFolder(), "build", "osiris.node");
}

/** The path of the addon that the package ships for this platform, whether it exists or not. */
export function prebuiltPath(): string {
  const platform = `${process.platform}-${process.arch}`;
  return join(nativeFolder(), "..", "prebuilds", platform, "osiris.node");
}

type AddonFunction = (...values: unknown[]) => unknown;

/** The functions that parse and pack data; src/kernels/native names the arithmetic functions. */
type DataFunction =
  | "readFields"
  | ("readHybrid" | "markRows" | "takeNumbers" | "takePairs" | "unpackSnappy")
  | ("sigridHash" | "bucketize" | "nGram" | "hashIds" | "rowsOfIds")
  | ("writeColumns" | "measureBags" | "writeBags" | "foldRecord" | "appendRecords")
  | ("copyRecords" | "copyBatch" | "countDistinct" | "countRuns" | "markSame" | "copyRows");

/** An addon whose version is not checked yet. */
type AnyAddon = Readonly<Record<string, AddonFunction>>;

/** The addon's functions, over typed arrays and numbers. */
export type Addon = AnyAddon & Readonly<Record<DataFunction, AddonFunction>>;

/** The origin of this process's addon, and how it was compiled. */
export interface AddonOrigin {
  readonly path: string;
  /** Whether it is the prebuilt addon of the package; else it was compiled on this machine. */
  readonly isPrebuilt: boolean;
  /** The instruction set that this thread runs. */
  readonly set: string;
  /** All instruction sets that it was compiled for. */
  readonly sets: readonly string[];
  readonly compiler: string;
}

let loaded: { readonly addon: Addon; readonly path: string } | undefined;

/** Version of the calling convention: native/bindings/running.h has the same number. */
export const callForm = 17;

/**
 * Checks the addon's calling convention.
 * @throws InputUnusableError where it was built for another version
 */
export function ofThisVersion(addon: AnyAddon, path: string): Addon {
  if (addon.callForm?.() === callForm) return addon as Addon;
  throw unusable(path, "were built for another version of Osiris");
}

function unusable(path: string, reason: string, options?: ErrorOptions): InputUnusableError {
  const advice = "build them again with `osiris build-native`, or remove the file";
  const message = `The native kernels in ${path} ${reason}: ${advice}`;
  return new InputUnusableError(path, message, options);
}

/**
 * Loads the addon of this process: the addon built on this machine, else the prebuilt addon;
 * undefined where neither has kernels for this processor.
 * @throws InputUnusableError where the addon built on this machine cannot be loaded
 */
export function loadAddon(): Addon | undefined {
  if (loaded !== undefined) return loaded.addon;
  const built = addonPath();
  if (existsSync(built)) {
    const addon = ofThisVersion(requireAddon(built), built);
    // Without kernels, it was compiled on another machine, for a processor with other sets.
    if (hasKernels(addon)) loaded = { addon, path: built };
  }
  loaded ??= prebuilt(prebuiltPath());
  return loaded?.addon;
}

/** The origin of this process's addon; undefined if there is no addon. */
export function addonOrigin(): AddonOrigin | undefined {
  const addon = loadAddon();
  if (addon === undefined || loaded === undefined) return undefined;
  const [set = "", sets = "", compiler = ""] = builtAs(addon);
  const { path } = loaded;
  return { path, isPrebuilt: path !== addonPath(), set, sets: sets.trim().split(" "), compiler };
}

/** The prebuilt addon; undefined if this system's C library is too old, or another library. */
function prebuilt(path: string): typeof loaded {
  if (!existsSync(path) || isMusl()) return undefined;
  let found: AnyAddon;
  try {
    found = requireAddon(path);
  } catch {
    return undefined;
  }
  const addon = ofThisVersion(found, path);
  return hasKernels(addon) ? { addon, path } : undefined;
}

function requireAddon(path: string): AnyAddon {
  try {
    return createRequire(import.meta.url)(path) as AnyAddon;
  } catch (cause) {
    const [reason] = String((cause as Error).message).split("\n");
    throw unusable(path, `cannot be loaded (${reason?.replace(`${path}: `, "")})`, { cause });
  }
}

function builtAs(addon: Addon): readonly (string | undefined)[] {
  return addon.built?.() as readonly (string | undefined)[];
}

/** The instruction set that this thread runs; empty: the addon has none for this processor. */
export function setOf(addon: Addon): string {
  return builtAs(addon)[0] ?? "";
}

function hasKernels(addon: Addon): boolean {
  return setOf(addon) !== "";
}

/** Bytes of an executable's beginning in which the name of its dynamic linker is found. */
const headBytes = 4096;

/** Whether this Node is linked with musl, which may load a library for glibc and crash in it. */
function isMusl(): boolean {
  if (process.platform !== "linux") return false;
  const head = Buffer.alloc(headBytes);
  const file = openSync(process.execPath, "r");
  try {
    readSync(file, head, 0, headBytes, 0);
  } finally {
    closeSync(file);
  }
  return head.includes("ld-musl-");
}
