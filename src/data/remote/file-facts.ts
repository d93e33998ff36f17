// What tells a file from the file that it was: where it lies, its size, and when it was changed, or
// what its server says of its contents.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { unreadable } from "../text/text-lines.ts";
import { isAddress } from "./addresses.ts";
import { openWebFile } from "./web-ranges.ts";

export interface FileFacts {
  readonly path: string;
  readonly bytes: number;
  /** When it was changed, in milliseconds since 1970; of a server's file, what the server says. */
  readonly version: number | string;
}

/** @throws InputUnusableError where the file cannot be read; StoreFailedError as `openWebFile` */
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

/** Servers, or files, that are asked at once. */
const askedAtOnce = 16;

/** The same of several files, in their order. */
export async function factsOfAll(paths: readonly string[]): Promise<FileFacts[]> {
  const facts: FileFacts[] = [];
  for (let first = 0; first < paths.length; first += askedAtOnce) {
    facts.push(...(await Promise.all(paths.slice(first, first + askedAtOnce).map(factsOf))));
  }
  return facts;
}

/** The same of a file on a disk. @throws InputUnusableError where it cannot be read */
export function factsOnDisk(path: string): FileFacts {
  try {
    const { size, mtimeMs } = statSync(path);
    return { path: resolve(path), bytes: size, version: mtimeMs };
  } catch (cause) {
    throw unreadable(path, cause);
  }
}
