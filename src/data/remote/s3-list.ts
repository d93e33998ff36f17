// Expands a path of a job to objects: all objects below a prefix that ends in `/`, or those that a
// pattern matches, as for directories and patterns on disk.

import { InputUnusableError } from "../../errors/errors.ts";
import { openObjectStore } from "../../objects/open-object-store.ts";
import { type StoreLimits, usualStoreLimits } from "../../objects/rules.ts";
import { isS3, s3Parts } from "../../objects/s3-address.ts";
import { byName, matchesName } from "./addresses.ts";

/**
 * Replaces each prefix and pattern among the paths by the paths of its objects, sorted by the bytes
 * of their keys, without names that begin with `.` or `_`. Other paths stay unchanged.
 * @throws InputUnusableError if a store refuses, or has no such object
 * @throws StoreFailedError if it does not respond correctly
 */
export async function s3FilesOf(
  paths: readonly string[],
  limits: StoreLimits = usualStoreLimits,
): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    if (isS3(path) && /[*?]|\/$/.test(path)) found.push(...(await objectsOf(path, limits)));
    else found.push(path);
  }
  return found;
}

async function objectsOf(address: string, limits: StoreLimits): Promise<string[]> {
  const { bucket, key } = s3Parts(address);
  const [prefix = ""] = /^[^*?]*/.exec(key) ?? [];
  const store = await openObjectStore(`s3://${bucket}`, undefined, limits);
  try {
    const keys = (await store.list(prefix)).filter((one) => {
      return isMeant(key, one) && !isHidden(one, prefix);
    });
    if (keys.length > 0) return keys.sort(byName).map((one) => `s3://${bucket}/${one}`);
  } finally {
    await store.close();
  }
  const message = `Cannot read the data: no object matches ${address}`;
  throw new InputUnusableError(address, message);
}

/**
 * Whether a pattern selects a key. `*` and `?` match within a name, and a matched prefix selects
 * all objects below it.
 */
export function isMeant(pattern: string, key: string): boolean {
  const whole = pattern.replace(/\/$/, "");
  if (whole === "") return true;
  const names = key.split("/");
  return whole.split("/").every((one, i) => {
    const name = names[i];
    return name !== undefined && matchesName(one, name);
  });
}

/** Whether an object is no data: a side file of a writer, or a directory marker. */
function isHidden(key: string, prefix: string): boolean {
  const names = key.slice(prefix.lastIndexOf("/") + 1).split("/");
  return key.endsWith("/") || names.some((name) => /^[._]/.test(name));
}
