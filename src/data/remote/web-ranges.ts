// A file on a web server, or an object of a store, read by ranges (RFC 9110, section 14). A file
// that changes while it is read is an error that names it.

import { shownAddress } from "./addresses.ts";
import {
  askServer,
  changed,
  Passing,
  refused,
  usualLimits,
  type WebLimits,
} from "./web-requests.ts";

/** A file on a server. */
export interface WebFile extends WebFacts {
  /** Its address without what may be secret in it. */
  readonly path: string;
  /** Its first bytes, which tell how it is packed: six, if it has six. */
  readonly head: Uint8Array;
  /**
   * The bytes start .. end-1. Rejects as `openWebFile` does, and with the reason of `signal` once
   * nobody waits for them.
   */
  read(start: number, end: number, signal?: AbortSignal): Promise<Uint8Array>;
}

/** What each answer of a server says of a file. */
interface WebFacts {
  readonly size: number;
  /** What the server says of its contents: the ETag, or when they were changed; "": nothing. */
  readonly tag: string;
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
  // Some stores take a range that ends at byte 0 for the whole file.
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
  /** What the file was. */
  readonly known?: WebFacts;
  readonly signal?: AbortSignal | undefined;
}

interface Answer extends WebFacts {
  readonly bytes: Uint8Array;
}

/** Asks for a range. What came of an answer that was cut off is not asked for again. */
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
      done = from - start; // The answer contradicts itself: none of it is taken.
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
    // The bytes of the file, as they are: ranges of what is compressed on the way are none of them.
    "Accept-Encoding": "identity",
  };
}

/** What an answer says of the file. @throws Passing, and where the server reads no ranges */
function factsIn({ status, headers }: Response, path: string): WebFacts {
  const tag = headers.get("etag") ?? headers.get("last-modified") ?? "";
  // Some servers send no range of an empty file, and others refuse its first byte.
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
  if (size === undefined) throw new Passing("the server told no range and no size");
  return { size: Number(size), tag };
}

/** @throws Passing where an answer has other bytes than start .. end-1 */
function checkRange({ headers }: Response, start: number, end: number): void {
  const range = headers.get("content-range") ?? "";
  const [, from, to] = /^bytes (\d+)-(\d+)\//.exec(range) ?? [];
  if (Number(from) === start && Number(to) === end - 1) return;
  const sent = from === undefined ? "no bytes" : `bytes ${from} to ${to}`;
  throw new Passing(`the server sent ${sent} for ${start} to ${end - 1}`);
}

/**
 * Fills `memory` with the body of an answer, and tells after each piece how many bytes are there.
 * Returns the bytes of the body, as far as it was read: more than `memory` has are too many.
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
    if (count < memory.length) throw error; // Cut off, and not behind the last byte.
  }
  return count;
}
