// Expands a path of a job to objects: all objects below a prefix that ends in `/`, or those that a
// pattern matches, as for directories and patterns on disk (ListObjectsV2). A store that supports
// only ListObjects version 1 returns no token; the next request then names the last key instead.

import type { XmlElement } from "@rgrove/parse-xml";
import { InputUnusableError } from "../../errors/errors.ts";
import { isS3, s3Parts } from "../../objects/s3-address.ts";
import { byName, matchesName } from "./addresses.ts";
import { askServer, Passing, usualLimits, type WebLimits } from "./web-requests.ts";

/** Most objects of one listing. */
const objectsMax = 1_000_000;

/**
 * Replaces each prefix and pattern among the paths by the paths of its objects, sorted by the bytes
 * of their keys, without names that begin with `.` or `_`. Other paths stay unchanged.
 * @throws InputUnusableError if a store refuses, or has no such object
 * @throws StoreFailedError if it does not respond correctly
 */
export async function s3FilesOf(
  paths: readonly string[],
  limits: WebLimits = usualLimits,
): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    if (isS3(path) && /[*?]|\/$/.test(path)) found.push(...(await objectsOf(path, limits)));
    else found.push(path);
  }
  return found;
}

async function objectsOf(address: string, limits: WebLimits): Promise<string[]> {
  const { bucket, key } = s3Parts(address);
  const [prefix = ""] = /^[^*?]*/.exec(key) ?? [];
  const keys: string[] = [];
  let next: Next | undefined;
  do {
    const page = await pageOf(address, prefix, next, limits);
    keys.push(...page.keys.filter((one) => isMeant(key, one) && !isHidden(one, prefix)));
    next = page.next;
    if (keys.length > objectsMax)
      throw none(address, `${address} has more than ${objectsMax} objects`);
  } while (next !== undefined);
  if (keys.length === 0) throw none(address, `no object matches ${address}`);
  keys.sort(byName);
  return keys.map((one) => `s3://${bucket}/${one}`);
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

/** Query parameters of the request for the next page. */
type Next = Readonly<Record<string, string>>;

interface Page {
  readonly keys: readonly string[];
  readonly next: Next | undefined;
}

async function pageOf(
  address: string,
  prefix: string,
  next: Next | undefined,
  limits: WebLimits,
): Promise<Page> {
  const query = { "list-type": "2", prefix, "encoding-type": "url", ...next };
  const { parseXml } = await import("@rgrove/parse-xml");
  return askServer(
    { address, query },
    async (response) => {
      const text = await response.text();
      const { root } = read(() => parseXml(text));
      if (root?.name !== "ListBucketResult") throw new Passing("the store sent no list of objects");
      const textOf = (name: string) => named(root, name)[0]?.text;
      const contents = named(root, "Contents").flatMap((one) => named(one, "Key"));
      const texts = contents.map(({ text: key }) => key);
      const keys = textOf("EncodingType") === "url" ? texts.map(decoded) : texts;
      if (textOf("IsTruncated")?.trim().toLowerCase() !== "true") return { keys, next: undefined };
      const token = textOf("NextContinuationToken") || undefined;
      if (token !== undefined) return { keys, next: { "continuation-token": token } };
      return { keys, next: behind(address, keys, next?.marker) };
    },
    limits,
  );
}

/**
 * The parameters that request the keys after a page without a token. `marker`: the marker that
 * requested this page.
 */
function behind(address: string, keys: readonly string[], marker: string | undefined): Next {
  const last = keys.at(-1);
  if (last !== undefined && last !== marker && !keys.includes(marker ?? "")) {
    return { marker: last, "start-after": last };
  }
  const what = "the store cuts its list of objects off, and gives no way to request the rest";
  throw none(address, `${what}: name the objects of ${address} one by one`);
}

/** The child elements with a name. */
function named({ children }: XmlElement, name: string): XmlElement[] {
  return children.filter((one): one is XmlElement => "name" in one && one.name === name);
}

/** Parses a list. A truncated list is a transient failure, so that it is requested again. */
function read<Result>(parse: () => Result): Result {
  try {
    return parse();
  } catch (cause) {
    throw new Passing("the store sent a list of objects that ends early", 0, { cause });
  }
}

function decoded(key: string): string {
  return decodeURIComponent(key.replaceAll("+", " "));
}

function none(address: string, what: string): InputUnusableError {
  return new InputUnusableError(address, `Cannot read the data: ${what}`);
}
