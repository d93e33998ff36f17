// The native addon: where it lies, and how it is loaded: the one that was compiled here, else the
// one that the package ships. Every thread loads this, and not what builds it.

import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The folder native/ of this package: the first one above src/ports, dist/src/ports or the rollups
 * in dist/threads.
 */
export function nativeFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const up of ["../..", "../../.."]) {
    const folder = join(here, up, "native");
    if (existsSync(join(folder, "build.sh"))) return folder;
  }
  return join(here, "../../../native");
}

/** The path of the addon that is built here, whether it exists or not. */
export function addonPath(): string {
  return join(nativeFolder(), "build", "osiris.node");
}

/** The path of the addon that the package ships for this platform, whether it exists or not. */
export function prebuiltPath(): string {
  const platform = `${process.platform}-${process.arch}`;
  return join(nativeFolder(), "..", "prebuilds", platform, "osiris.node");
}

type AddonFunction = (...values: unknown[]) => unknown;

/** The functions that read and pack data; src/kernels/native names the functions of arithmetic. */
type DataFunction =
  | "readFields"
  | ("readHybrid" | "markRows" | "takeNumbers" | "takePairs" | "unpackSnappy")
  | ("sigridHash" | "bucketize" | "nGram" | "hashIds" | "rowsOfIds")
  | ("writeColumns" | "measureBags" | "writeBags" | "foldRecord" | "appendRecords")
  | ("copyRecords" | "copyBatch" | "countDistinct" | "countRuns" | "markSame" | "copyRows");

/** A file of native code, before it is known to be of this version. */
type AnyAddon = Readonly<Record<string, AddonFunction>>;

/** The addon's functions, over typed arrays and numbers. */
export type Addon = AnyAddon & Readonly<Record<DataFunction, AddonFunction>>;

/** Where the addon of this process came from, and how it was compiled. */
export interface AddonOrigin {
  readonly path: string;
  /** Whether the package shipped it; else it was compiled here. */
  readonly isPrebuilt: boolean;
  /** The instruction set that this thread runs. */
  readonly set: string;
  /** All sets that it was compiled for. */
  readonly sets: readonly string[];
  readonly compiler: string;
}

let loaded: { readonly addon: Addon; readonly path: string } | undefined;

/** The form of the calls: native/bindings/running.h has the same number. */
const callForm = 10;

/** The addon, if it takes our calls. @throws Error where it was built for another version */
export function ofThisVersion(addon: AnyAddon, path: string): Addon {
  if (addon.callForm?.() === callForm) return addon as Addon;
  const message =
    `The native kernels in ${path} were built for another version of Osiris: build them again with ` +
    "`osiris build-native`";
  throw new Error(message);
}

/**
 * The addon of this process: the one that is built here, else the one of the package; undefined
 * where neither has kernels for this processor. If the addon that is built here cannot be loaded,
 * its error is thrown.
 */
export function loadAddon(): Addon | undefined {
  if (loaded !== undefined) return loaded.addon;
  const built = addonPath();
  if (existsSync(built)) {
    const addon = ofThisVersion(requireAddon(built), built);
    // Compiled on another machine, for a processor that has more than this one.
    if (hasKernels(addon)) loaded = { addon, path: built };
  }
  loaded ??= prebuilt(prebuiltPath());
  return loaded?.addon;
}

/** Where the addon of this process came from; undefined where there is none. */
export function addonOrigin(): AddonOrigin | undefined {
  const addon = loadAddon();
  if (addon === undefined || loaded === undefined) return undefined;
  const [set = "", sets = "", compiler = ""] = builtAs(addon);
  const { path } = loaded;
  return { path, isPrebuilt: path !== addonPath(), set, sets: sets.trim().split(" "), compiler };
}

/** The shipped addon, unless this system cannot load it: its C library may be older, or another. */
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
  return createRequire(import.meta.url)(path) as AnyAddon;
}

function builtAs(addon: Addon): readonly (string | undefined)[] {
  return addon.built?.() as readonly (string | undefined)[];
}

function hasKernels(addon: Addon): boolean {
  return builtAs(addon)[0] !== undefined;
}

/** Enough of a program's head to hold the name of its dynamic linker. */
const headBytes = 4096;

/** Whether this Node rests on musl, whose linker may take a library of glibc and crash in it. */
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
