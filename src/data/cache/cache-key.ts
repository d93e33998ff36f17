// The identity of a cache: a hash over everything that decides its samples; and the samples' shape.

import { createHash } from "node:crypto";
import { isIndexedByFile, transformsOf } from "../data-kinds.ts";
import type { ResolvedDataOptions, TableShape } from "../options.ts";
import { shownPath } from "../remote/addresses.ts";
import type { FileFacts } from "../remote/file-facts.ts";
import { areNumeric, targetsOf } from "../targets.ts";
import { denseOf, wideOf } from "../text/columns.ts";
import { weightedOf } from "../text/match-features.ts";
import { identityOf as transformsIdentity, withVocabularies } from "../transforms/vocabulary.ts";
import { cacheVersion, filesVersion } from "./cache-format.ts";
import type { CacheShape } from "./cache-writer.ts";

/** The hash in the cache's name, over everything that determines its content. */
export function cacheKey(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  key: object | undefined,
  facts: readonly FileFacts[],
): string {
  const { batchSize: _, passes: _passes, shuffle: _shuffle, ...others } = options;
  const { order: _order, ...rest } = others;
  const { cache: _cache, cacheBytesMax: _bytes, ...content } = { ...rest, streamed: undefined };
  const isText = options.kind !== "synthetic";
  const files = facts.map(({ path, bytes, version }) => [path, bytes, version]);
  // Signatures in an address are no part of the data's identity.
  const own = isText ? { paths: options.paths.map(shownPath) } : {};
  const shapes = tables.map(({ name, column, table, rows, idBits = 32, ids }) => {
    const shape = [name, rows, idBits, isText && idBits === 32 ? ids : undefined];
    return column === undefined ? shape : [...shape, column, table];
  });
  const damaged = "damagedMax" in options && { damagedMax: options.damagedMax || undefined };
  const decides = { ...content, ...own, ...undeciding, ...damaged, ...made(options) };
  const version = isIndexedByFile(options) ? filesVersion : cacheVersion;
  const parts = [version, files, decides, shapes];
  const text = JSON.stringify(key === undefined ? parts : [...parts, key]);
  return createHash("sha256").update(text).digest("hex").slice(0, 24);
}

/**
 * The identity of the transforms, including the contents of vocabularies; empty without transforms.
 */
function made(options: ResolvedDataOptions): { readonly transforms?: object } {
  const transforms = transformsOf(options);
  return transforms === undefined
    ? {}
    : { transforms: transformsIdentity(withVocabularies(transforms)) };
}

/** Options that decide whether data are refused, or when training begins, but no sample. */
const undeciding = {
  ...{ rejectedMax: undefined, labelAsFeature: undefined },
  ...{ startEarly: undefined, remoteBytesMax: undefined },
};

/** The shape of the samples that these options and tables produce. */
export function cacheShapeOf(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
): CacheShape {
  const [wide, weighted] = [wideOf(tables), weightedOf(options, tables)];
  const rows = tables.map((table) => table.rows);
  const shape = { dense: denseOf(options), features: tables.length, wide, weighted, rows };
  return { ...shape, targets: targetsOf(options), numeric: areNumeric(options) };
}
