// Reads a file on a web server or an object of a store by range requests (RFC 9110, section 14). A
// file that changes while it is read is an error that names it.

import { shownAddress } from "./addresses.ts";
import {
  askServer,
  changed,
  Passing,
  refused,
  usualLimits,
  type WebLimits,
} from "./web-requests.ts";

/** An open remote file. */
export interface WebFile extends WebFacts {
  /** Its redacted address. */
  readonly path: string;
  /** Its first six bytes, or fewer if it is shorter, which identify its compression. */
  readonly head: Uint8Array;
  /**
   * Reads the bytes start .. end-1. Rejects as `openWebFile`, or with the reason of `signal` if it
   * aborts.
   */
  read(start: number, end: number, signal?: AbortSignal): Promise<Uint8Array>;
}

/** The facts about a file in every response. */
interface WebFacts {
  readonly size: number;
  /** The ETag, otherwise Last-Modified, otherwise "". */
  readonly tag: string;
}

/**
 * Requests the file's size, tag and first bytes.
 * @throws InputUnusableError if the file does not exist, may not be read or has changed, or if the
 * server does not support ranges; StoreFailedError if it does not respond correctly
 */
export async function openWebFile(
  address: string,
  limits: WebLimits = usualLimits,
): Promise<WebFile> {
  // Not bytes 0-0: some stores answer a range that ends at byte 0 with the whole file.
  const { bytes: head, ...known } = await asked(address, { start: 0, end: 6 }, limits);
  return {
    path: shownAddress(address),
    ...known,
    head,
    async read(start, end, signal) {
      if (end <= start) return new Uint8Array();
      return (await asked(address, { start, end, known, signal }, limits)).bytes;
    },
  };
}

interface Asked {
  readonly start: number;
  readonly end: number;
  /** Size and tag that the file must still have. */
  readonly known?: WebFacts;
  readonly signal?: AbortSignal | undefined;
}

interface Answer extends WebFacts {
  readonly bytes: Uint8Array;
}

/** Requests a range. After a truncated response, only the missing bytes are requested again. */
function asked(address: string, range: Asked, limits: WebLimits): Promise<Answer> {
  const { start, end, known, signal } = range;
  const path = shownAddress(address);
  const memory = new Uint8Array(end - start);
  let done = 0;
  const headers = () => headersOf(start + done, end, known?.tag);
  const read = async (response: Response): Promise<Answer> => {
    const found = factsIn(response, path);
    if (known !== undefined && (found.size !== known.size || found.tag !== known.tag)) {
      throw changed(path);
    }
    const [from, last] = [start + done, Math.min(end, found.size)];
    if (found.size === 0) return { ...found, bytes: new Uint8Array() };
    checkRange(response, from, last);
    const wanted = memory.subarray(done, last - start);
    const filled = await fill(wanted, response, (count) => {
      done = from - start + count;
    });
    if (filled !== wanted.length) {
      done = from - start; // An inconsistent response: discard it.
      throw new Passing(`the server sent ${filled} bytes of ${wanted.length}`);
    }
    return { ...found, bytes: memory.subarray(0, last - start) };
  };
  return askServer({ address, headers, signal }, read, limits);
}

function headersOf(start: number, end: number, tag = ""): Record<string, string> {
  return {
    Range: `bytes=${start}-${end - 1}`,
    ...(tag.startsWith('"') ? { "If-Match": tag } : {}), // A strong ETag.
    // Without transfer compression, because a range of compressed bytes is not a range of the file.
    "Accept-Encoding": "identity",
  };
}

/**
 * Size and tag from a response. @throws Passing; InputUnusableError if the server does not support
 * ranges
 */
function factsIn({ status, headers }: Response, path: string): WebFacts {
  const tag = headers.get("etag") ?? headers.get("last-modified") ?? "";
  // For an empty file, some servers send no range, and others refuse it (416).
  if (status === 200 && headers.get("content-length") === "0") return { size: 0, tag };
  if (status !== 206 && status !== 416) {
    throw refused(path, "the server reads no ranges of files (Range)");
  }
  const coding = headers.get("content-encoding") ?? "identity";
  if (coding !== "identity") {
    const why = `the server sends it as \`Content-Encoding: ${coding}\`, which has no ranges of it`;
    throw refused(path, why);
  }
  const [, size] = /^bytes .*\/(\d+)$/.exec(headers.get("content-range") ?? "") ?? [];
  if (size === undefined) throw new Passing("the server sent neither a range nor a size");
  return { size: Number(size), tag };
}

/** @throws Passing if a response holds other bytes than start .. end-1 */
function checkRange({ headers }: Response, start: number, end: number): void {
  const range = headers.get("content-range") ?? "";
  const [, from, to] = /^bytes (\d+)-(\d+)\//.exec(range) ?? [];
  if (Number(from) === start && Number(to) === end - 1) return;
  const sent = from === undefined ? "no bytes" : `bytes ${from} to ${to}`;
  throw new Passing(`the server sent ${sent} for ${start} to ${end - 1}`);
}

/**
 * Copies the body of a response into `memory`, and reports the number of bytes after each chunk.
 * Returns the number of body bytes read, which exceeds the size of `memory` if the body is too
 * long.
 */
async function fill(
  memory: Uint8Array,
  { body }: Response,
  onBytes: (count: number) => void,
): Promise<number> {
  let count = 0;
  if (body === null) return count;
  try {
    for await (const piece of body) {
      const { length } = piece as Uint8Array;
      if (count + length > memory.length) return count + length;
      memory.set(piece as Uint8Array, count);
      count += length;
      onBytes(count);
    }
  } catch (error) {
    if (count < memory.length) throw error; // Truncated before the last byte.
  }
  return count;
}
