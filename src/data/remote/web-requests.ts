// HTTP requests to a web server or an object store, with retries and exponential backoff for slow,
// truncated and temporarily refused responses. A permanent failure is an error that names the file.

import { InputUnusableError, StoreFailedError } from "../../errors/errors.ts";
import { isS3 } from "../../objects/s3-address.ts";
import { type Clock, realClock } from "../../ports/clock.ts";
import { shownAddress } from "./addresses.ts";
import { type S3Request, s3Problem, s3Request } from "./s3-requests.ts";

/** Limits of attempts and waiting. */
export interface WebLimits {
  readonly attemptsMax: number;
  /** Deadline of one response, including its body. */
  readonly deadlineMs: number;
  /** Wait before the second attempt; it doubles with each further attempt. */
  readonly backoffMs: number;
  readonly clock: Clock;
}

export const usualLimits: WebLimits = {
  attemptsMax: 6,
  deadlineMs: 30_000,
  backoffMs: 200,
  clock: realClock,
};
/** Longest wait before an attempt, also if the server requests a longer one. */
const backoffMsMax = 10_000;

/** A transient failure: another attempt may succeed. */
export class Passing extends Error {
  /** Wait that the server requests (Retry-After). */
  readonly afterMs: number;

  constructor(message: string, afterMs = 0, options?: ErrorOptions) {
    super(message, options);
    this.afterMs = afterMs;
  }
}

/** A request. */
export interface WebQuestion {
  readonly address: string;
  /** Headers of the next attempt. */
  readonly headers?: () => Headed;
  /** Aborts if the response is no longer needed. */
  readonly signal?: AbortSignal | undefined;
}

type Headed = Readonly<Record<string, string>>;

/**
 * Sends a request until `read` has accepted a response; `read` may throw `Passing` to retry.
 * Rejects with InputUnusableError if the server refuses, and with StoreFailedError after the last
 * attempt.
 */
export async function askServer<Answer>(
  question: WebQuestion,
  read: (response: Response) => Promise<Answer>,
  limits: WebLimits,
): Promise<Answer> {
  const path = shownAddress(question.address);
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOf(question, read, limits.deadlineMs);
    } catch (error) {
      if (!(error instanceof Passing)) throw error;
      question.signal?.throwIfAborted();
      if (attempt === limits.attemptsMax) {
        const cause = new Error(`${error.message}, the last of ${attempt} times`, { cause: error });
        throw new StoreFailedError("read", path, { cause });
      }
      const backoffMs = limits.backoffMs * 2 ** (attempt - 1);
      const waitMs = Math.min(backoffMsMax, Math.max(backoffMs, error.afterMs));
      await pause(waitMs, limits.clock, question.signal);
    }
  }
}

/** Waits for `waitMs` or until the signal aborts. */
function pause(waitMs: number, clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resume) => {
    const cancel = clock.after(waitMs, () => {
      signal?.removeEventListener("abort", end);
      resume();
    });
    const end = () => {
      cancel();
      resume();
    };
    signal?.addEventListener("abort", end, { once: true });
  });
}

async function attemptOf<Answer>(
  { address, headers = () => ({}), signal }: WebQuestion,
  read: (response: Response) => Promise<Answer>,
  deadlineMs: number,
): Promise<Answer> {
  const deadline = AbortSignal.timeout(deadlineMs);
  const ended = new AbortController();
  const end = () => ended.abort();
  signal?.addEventListener("abort", end, { once: true });
  try {
    signal?.throwIfAborted();
    const own: WebRequest = isS3(address)
      ? await s3Request(address, headers())
      : webRequest(address, headers());
    const either = AbortSignal.any([deadline, ended.signal]);
    const { url, onExpired, ...init } = own;
    const response = await fetch(url, { ...init, signal: either });
    await checkStatus(response, address, onExpired);
    return await read(response);
  } catch (error) {
    if (error instanceof Passing || error instanceof InputUnusableError) throw error;
    const reason = deadline.aborted ? `no answer within ${deadlineMs} ms` : reasonOf(error);
    throw new Passing(reason, 0, { cause: error });
  } finally {
    signal?.removeEventListener("abort", end);
    ended.abort(); // Cancels the rest of the response.
  }
}

type WebRequest = Pick<S3Request, "url" | "headers"> & Partial<S3Request>;

/** The request for an address. User and password in it become an Authorization header. */
function webRequest(address: string, headers: Headed): WebRequest {
  if (!URL.canParse(address)) throw refused(shownAddress(address), "that is no address");
  const url = new URL(address);
  const { username, password } = url;
  if (username === "" && password === "") return { url: address, headers };
  [url.username, url.password] = ["", ""];
  const pair = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
  const Authorization = `Basic ${pair.toString("base64")}`;
  return { url: url.href, headers: { ...headers, Authorization } };
}

async function checkStatus(
  response: Response,
  address: string,
  onExpired: () => void = () => {},
): Promise<void> {
  const { status, statusText, headers } = response;
  if (response.ok || status === 416) return;
  const path = shownAddress(address);
  if (status === 412) throw changed(path);
  const said = `the server says ${status}${statusText === "" ? "" : ` ${statusText}`}`;
  if (status === 408 || status === 429 || status >= 500) {
    throw new Passing(said, 1000 * (Number(headers.get("retry-after")) || 0));
  }
  if (isS3(address)) {
    const { message, isExpired } = await s3Problem(response, address);
    if (!isExpired) throw new InputUnusableError(path, message);
    onExpired();
    throw new Passing(said);
  }
  throw refused(path, said);
}

/** The error of a file that a server refuses. */
export function refused(path: string, why: string): InputUnusableError {
  const message = `Cannot read the data file ${path}: ${why}; name another address, or copy the file`;
  return new InputUnusableError(path, message);
}

/** The error of a file that has changed. */
export function changed(path: string): InputUnusableError {
  const message =
    `The data file ${path} has changed while it was read: put it back as it was, or start again ` +
    "with the changed data";
  return new InputUnusableError(path, message);
}

function reasonOf(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return inner instanceof Error ? inner.message : String(inner);
}
