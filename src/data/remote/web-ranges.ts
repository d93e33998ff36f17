// A file on a web server, or an object of a store, read by ranges (RFC 9110, section 14). A file
// that changes while it is read is an error that names it.

import {
  askServer,
  changed,
  Passing,
  refused,
  shownAddress,
  usualLimits,
  type WebLimits,
} from "./web-requests.ts";

/** A file on a server. */
export interface WebFile {
  /** Its address without what may be secret in it. */
  readonly path: string;
  readonly size: number;
  /** What the server says of its contents: the ETag, or when they were changed; "": nothing. */
  readonly tag: string;
  /** The bytes start .. end-1. Rejects as `openWebFile` does. */
  read(start: number, end: number): Promise<Uint8Array>;
}

/**
 * Asks the server for the file's size and tag.
 * @throws InputUnusableError where the file is not there, may not be read, or has changed, and
 * where the server reads no ranges; StoreFailedError where it does not answer as it should
 */
export async function openWebFile(
  address: string,
  limits: WebLimits = usualLimits,
): Promise<WebFile> {
  const path = shownAddress(address);
  // Some stores take a range that ends at byte 0 for the whole file.
  const first = await asked(address, { start: 0, end: 2 }, limits);
  const { size, tag } = first;
  return {
    path,
    size,
    tag,
    async read(start, end) {
      if (end <= start) return new Uint8Array();
      const answer = await asked(address, { start, end, tag }, limits);
      if (answer.size !== size || answer.tag !== tag) throw changed(path);
      return answer.bytes;
    },
  };
}

interface Asked {
  readonly start: number;
  readonly end: number;
  /** The tag that the file had. */
  readonly tag?: string;
}

interface Answer {
  readonly size: number;
  readonly tag: string;
  readonly bytes: Uint8Array;
}

function asked(address: string, range: Asked, limits: WebLimits): Promise<Answer> {
  const { start, end, tag } = range;
  const headers: Record<string, string> = { Range: `bytes=${start}-${end - 1}` };
  if (tag?.startsWith('"') === true) headers["If-Match"] = tag; // A strong ETag.
  // The bytes of the file, as they are: ranges of what is compressed on the way are none of them.
  headers["Accept-Encoding"] = "identity";
  return askServer({ address, headers }, (response) => rangeOf(response, range, address), limits);
}

async function rangeOf(
  response: Response,
  { start, end }: Asked,
  address: string,
): Promise<Answer> {
  const { status } = response;
  if (status !== 206 && status !== 416) {
    throw refused(shownAddress(address), "the server reads no ranges of files (Range)");
  }
  const sizeOnly = status === 416; // An empty file has no first byte.
  const [, from, to, size] =
    /^bytes (?:(\d+)-(\d+)|\*)\/(\d+)$/.exec(response.headers.get("content-range") ?? "") ?? [];
  if (size === undefined) throw new Passing("the server told no range and no size");
  const found = { size: Number(size), tag: tagOf(response) };
  if (sizeOnly) return { ...found, bytes: new Uint8Array() };
  const last = Math.min(end, found.size);
  if (Number(from) !== start || Number(to) !== last - 1) {
    throw new Passing(`the server sent bytes ${from} to ${to} for ${start} to ${last - 1}`);
  }
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes.length !== last - start) {
    throw new Passing(`the server sent ${bytes.length} bytes of ${last - start}`);
  }
  return { ...found, bytes };
}

function tagOf({ headers }: Response): string {
  return headers.get("etag") ?? headers.get("last-modified") ?? "";
}
