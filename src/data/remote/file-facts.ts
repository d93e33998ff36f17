// The facts by which a changed file is detected: path, size, and modification time or the server's
// tag.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { unreadable } from "../text/text-lines.ts";
import { isAddress } from "./addresses.ts";
import { openWebFile } from "./web-ranges.ts";

export interface FileFacts {
  readonly path: string;
  readonly bytes: number;
  /** Modification time, in milliseconds since 1970; for a remote file, its tag (`WebFile.tag`). */
  readonly version: number | string;
}

/**
 * The facts of a local or remote file.
 * @throws InputUnusableError if it cannot be read; StoreFailedError as `openWebFile`
 */
export async function factsOf(path: string): Promise<FileFacts> {
  try {
    if (isAddress(path)) {
      const { path: shown, size, tag } = await openWebFile(path);
      return { path: shown, bytes: size, version: tag };
    }
    return factsOnDisk(path);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/** Concurrent requests. */
const askedAtOnce = 16;

/** The facts of several files, in the order of `paths`. */
export async function factsOfAll(paths: readonly string[]): Promise<FileFacts[]> {
  const facts: FileFacts[] = [];
  for (let first = 0; first < paths.length; first += askedAtOnce) {
    facts.push(...(await Promise.all(paths.slice(first, first + askedAtOnce).map(factsOf))));
  }
  return facts;
}

/** The facts of a local file. @throws InputUnusableError if it cannot be read */
export function factsOnDisk(path: string): FileFacts {
  try {
    const { size, mtimeMs } = statSync(path);
    return { path: resolve(path), bytes: size, version: mtimeMs };
  } catch (cause) {
    throw unreadable(path, cause);
  }
}
