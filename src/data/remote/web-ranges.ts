// A file on a web server, read by ranges (RFC 9110, section 14). A server may be slow, cut answers
// off, or refuse for a while: requests are made again, a few times and later each time. A file that
// changes while it is read is an error that names it.

import { InputUnusableError, StoreFailedError } from "../../errors/errors.ts";
import { type Clock, realClock } from "../../ports/clock.ts";

/** How often and how long a server is asked. */
export interface WebLimits {
  readonly attemptsMax: number;
  /** For one answer, with its body. */
  readonly deadlineMs: number;
  /** Before the second attempt; twice as long before each further one. */
  readonly backoffMs: number;
  readonly clock: Clock;
}

const usualLimits: WebLimits = {
  attemptsMax: 6,
  deadlineMs: 30_000,
  backoffMs: 200,
  clock: realClock,
};
/** Longest wait before an attempt, also where the server asks for a longer one. */
const backoffMsMax = 10_000;

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

/** Whether a path of a job is an address. */
export function isAddress(path: string): boolean {
  return /^https?:\/\//i.test(path);
}

/** An address without user, password and query: a query may sign a request. */
export function shownAddress(address: string): string {
  const { origin, pathname } = new URL(address);
  return origin + pathname;
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
  const first = await asked(address, { start: 0, end: 1 }, limits);
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

/** Another attempt may get an answer. */
class Passing extends Error {
  /** How long the server asks to wait. */
  readonly afterMs: number;

  constructor(message: string, afterMs = 0, options?: ErrorOptions) {
    super(message, options);
    this.afterMs = afterMs;
  }
}

async function asked(address: string, range: Asked, limits: WebLimits): Promise<Answer> {
  const path = shownAddress(address);
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOf(address, range, limits.deadlineMs);
    } catch (error) {
      if (!(error instanceof Passing)) throw error;
      if (attempt === limits.attemptsMax) {
        const cause = new Error(`${error.message}, the last of ${attempt} times`, { cause: error });
        throw new StoreFailedError("read", path, { cause });
      }
      const backoffMs = limits.backoffMs * 2 ** (attempt - 1);
      const waitMs = Math.min(backoffMsMax, Math.max(backoffMs, error.afterMs));
      await new Promise<void>((resume) => limits.clock.after(waitMs, resume));
    }
  }
}

async function attemptOf(address: string, range: Asked, deadlineMs: number): Promise<Answer> {
  const { start, end, tag } = range;
  const path = shownAddress(address);
  const headers: Record<string, string> = { Range: `bytes=${start}-${end - 1}` };
  if (tag?.startsWith('"') === true) headers["If-Match"] = tag; // A strong ETag.
  // The bytes of the file, as they are: ranges of what is compressed on the way are none of them.
  headers["Accept-Encoding"] = "identity";
  const signal = AbortSignal.timeout(deadlineMs);
  try {
    const response = await fetch(address, { headers, signal });
    checkStatus(response, path);
    const sizeOnly = response.status === 416; // An empty file has no first byte.
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
  } catch (error) {
    if (error instanceof Passing || error instanceof InputUnusableError) throw error;
    const reason = signal.aborted ? `no answer within ${deadlineMs} ms` : reasonOf(error);
    throw new Passing(reason, 0, { cause: error });
  }
}

function checkStatus({ status, statusText, headers }: Response, path: string): void {
  if (status === 206 || status === 416) return;
  if (status === 412) throw changed(path);
  const said = `the server says ${status}${statusText === "" ? "" : ` ${statusText}`}`;
  if (status === 408 || status === 429 || status >= 500) {
    throw new Passing(said, 1000 * (Number(headers.get("retry-after")) || 0));
  }
  const why = status === 200 ? "the server reads no ranges of files (Range)" : said;
  const message = `Cannot read the data file ${path}: ${why}; name another address, or copy the file`;
  throw new InputUnusableError(path, message);
}

function tagOf({ headers }: Response): string {
  return headers.get("etag") ?? headers.get("last-modified") ?? "";
}

function changed(path: string): InputUnusableError {
  const message =
    `The data file ${path} has changed while it was read: put it back as it was, or start again ` +
    "with the changed data";
  return new InputUnusableError(path, message);
}

function reasonOf(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error ? inner.message : String(inner);
}
