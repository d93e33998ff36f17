// The rules of an object store: the requests of each call, and its reactions to the responses:
// retries, lost responses, errors. Rules are generators, so that the same code serves stores that
// return promises (later-store.ts) and stores that block the thread (blocking-store.ts).

import { createHash } from "node:crypto";
import { InputUnusableError, StoreFailedError } from "../errors/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { StoreAnswer, StoreRequest } from "./requests.ts";

/** An effect that a rule requests by `yield`; the runner passes the result back to the rule. */
export type Effect =
  | { readonly kind: "send"; readonly request: StoreRequest }
  | { readonly kind: "pause"; readonly ms: number }
  /** Starts a rule that runs concurrently with this one. The result is a task for `join`. */
  | { readonly kind: "fork"; readonly rule: Rule<unknown> }
  | { readonly kind: "join"; readonly task: unknown };

export type Rule<Result> = Generator<Effect, Result, unknown>;

/** Runs rules to their ends, blocking or as a promise. */
export interface RuleRunner {
  readonly place: StorePlace;
  readonly run: <Result>(rule: Rule<Result>) => Result | Promise<Result>;
}

/** The runners of open stores, for rules that are not methods of the port (probe.ts). */
export const runners = new WeakMap<object, RuleRunner>();

/** A rule that runs concurrently with others. Only its runner knows the content of `handle`. */
export interface Task<Result> {
  readonly handle: unknown;
  readonly result?: Result;
}

/** Starts a rule that runs concurrently with this one. */
export function* fork<Result>(rule: Rule<Result>): Rule<Task<Result>> {
  return { handle: yield { kind: "fork", rule } };
}

/** Waits for a forked rule. Returns its result, or throws its error. */
export function* join<Result>(task: Task<Result>): Rule<Result> {
  return (yield { kind: "join", task: task.handle }) as Result;
}

/** Limits of attempts and waiting. */
export interface StoreLimits {
  readonly attemptsMax: number;
  /** Deadline of an attempt, without the time for its bytes. */
  readonly attemptMs: number;
  /** Wait before the second attempt; it doubles with each further attempt. */
  readonly backoffMs: number;
}

/**
 * A store that rebalances its load refuses for long: nine attempts have pauses of 23 s in all, and
 * end after almost two minutes if none is answered.
 */
export const usualStoreLimits: StoreLimits = { attemptsMax: 9, attemptMs: 10_000, backoffMs: 100 };
const backoffMsMax = 10_000;

/** A prefix of a bucket, and the limits, memory and clock of the rules for its objects. */
export interface StorePlace {
  readonly address: string;
  /** "", or a prefix that ends in `/`. */
  readonly prefix: string;
  readonly limits: StoreLimits;
  /** Allocates memory for bodies: shared memory, if another thread sends and receives them. */
  newBytes(count: number): Uint8Array;
  /** The endpoint of the address, which depends on the environment. */
  readonly endpoint: string;
  readonly clock: Clock;
  /** Returns a name that is unique among all processes. */
  newName(): string;
}

/** A request with the statuses that it accepts, and the name of its action for messages. */
interface Question extends StoreRequest {
  readonly answers: readonly number[];
  readonly action: "read" | "write" | "list" | "remove";
  /** Returns why a response with an accepted status is wrong; it is then requested again. */
  readonly doubt?: (answer: StoreAnswer) => string | undefined;
}

const done = [200, 201, 204];
/** Error codes for credentials that were valid and have expired. */
export const expired = /^(ExpiredToken|ExpiredTokenException|TokenRefreshRequired)$/;
/** Error codes of transient refusals: damaged bytes, or a slow connection. */
const passing = /^(BadDigest|XAmzContentSHA256Mismatch|RequestTimeout|IncompleteBody|SlowDown)$/;

/**
 * Sends a request until a response is accepted.
 * @throws StoreFailedError after the last attempt; InputUnusableError if the store refuses
 * permanently
 */
export function* ask(place: StorePlace, question: Question): Rule<StoreAnswer> {
  const { answers, action, doubt, ...request } = question;
  const { limits } = place;
  const address = addressOf(place, question.key.slice(place.prefix.length));
  for (let attempt = 1; ; attempt++) {
    const answer = (yield { kind: "send", request }) as StoreAnswer;
    const { status } = answer;
    const code = codeOf(answer);
    const counts = answers.includes(status) && code !== "NoSuchBucket";
    const doubted = counts ? doubt?.(answer) : undefined;
    if (counts && doubted === undefined) return answer;
    const reason = doubted ?? reasonOf(answer, code);
    const isExpired = expired.test(code);
    const passes = status === 0 || status === 408 || status === 409 || status === 429;
    if (!(counts || isExpired || passes || status >= 500 || passing.test(code))) {
      throw refusalOf(address, action, answer, code);
    }
    if (attempt >= limits.attemptsMax) {
      const cause = new Error(`${reason}, the last of ${attempt} times`);
      throw new StoreFailedError(action, address, { cause });
    }
    if (isExpired && attempt === 1) continue; // Credentials are renewed now.
    const longest = Math.min(backoffMsMax, limits.backoffMs * 2 ** (attempt - 1));
    const retryAfterMs = 1000 * (Number(answer.headers["retry-after"]) || 0);
    yield { kind: "pause", ms: Math.max(longest, Math.min(backoffMsMax, retryAfterMs)) };
  }
}

/** @see ObjectStore.put */
export function* put(place: StorePlace, key: string, bytes: Uint8Array): Rule<void> {
  yield* ask(place, putOf(place, key, bytes));
}

function putOf({ prefix }: StorePlace, key: string, body: Uint8Array): Question {
  return { method: "PUT", key: prefix + key, body, answers: done, action: "write" };
}

/**
 * @see ObjectStore.create. After a 412 the stored bytes are always compared with the caller's: the
 * response to an earlier attempt may have been lost, or a proxy may have sent the request twice,
 * and then the refused attempt is the caller's own second one.
 */
export function* create(place: StorePlace, key: string, bytes: Uint8Array): Rule<boolean> {
  const headers = { "if-none-match": "*" };
  const question = { ...putOf(place, key, bytes), headers, answers: [...done, 412] };
  const { status } = yield* ask(place, question);
  if (status !== 412) return true;
  const found = yield* get(place, key);
  return found !== undefined && Buffer.compare(found, bytes) === 0;
}

/**
 * @see ObjectStore.size. Reads the first bytes instead of sending HEAD: the response to a refused
 * HEAD has no body, and so no code for expired credentials.
 */
export function* size(place: StorePlace, key: string): Rule<number | undefined> {
  const first = yield* piece(place, key, { from: 0, bytes: 16 });
  return first?.size;
}

/** Bytes of the first request for an object; most objects are not larger. */
const firstBytes = 0x10_0000;
/** Bytes of a request for a range, so many that the latency of a request hardly matters. */
export const rangeBytes = 0x40_0000;
/** Ranges that are requested concurrently. */
export const rangesAtOnce = 4;

/** @see ObjectStore.get. The bytes may lie in shared memory. */
export function* get(
  place: StorePlace,
  key: string,
  range?: { readonly from: number; readonly bytes: number },
): Rule<Uint8Array | undefined> {
  const from = range?.from ?? 0;
  const requested = range?.bytes ?? firstBytes;
  if (requested === 0) return new Uint8Array();
  const first = yield* piece(place, key, { from, bytes: Math.min(requested, rangeBytes) });
  if (first === undefined) return undefined;
  const end = range === undefined ? first.size : from + range.bytes;
  if (end > first.size) throw outside(place, key, end, first.size);
  if (from + first.bytes.length === end) return first.bytes;
  const whole = new Uint8Array(end - from); // The caller owns it.
  whole.set(first.bytes);
  const tasks: { at: number; task: Task<Piece | undefined> }[] = [];
  for (let at = from + first.bytes.length; at < end || tasks.length > 0; ) {
    while (at < end && tasks.length < rangesAtOnce) {
      const bytes = Math.min(rangeBytes, end - at);
      tasks.push({ at, task: yield* fork(piece(place, key, { from: at, bytes }, first)) });
      at += bytes;
    }
    const oldest = tasks.shift();
    const got = oldest && (yield* join(oldest.task));
    if (oldest === undefined || got === undefined) return undefined; // It has been removed.
    whole.set(got.bytes, oldest.at - from);
  }
  return whole;
}

/** A part of an object, with the size and the ETag of the whole. */
export interface Piece {
  readonly bytes: Uint8Array;
  readonly size: number;
  readonly etag: string;
}

/**
 * Requests a range, which the end of the object may cut short. `known`: an earlier piece, which
 * must be of the same version of the object.
 */
export function* piece(
  place: StorePlace,
  key: string,
  { from, bytes }: { readonly from: number; readonly bytes: number },
  known?: Piece,
): Rule<Piece | undefined> {
  const answer = yield* ask(place, {
    ...{ method: "GET", key: place.prefix + key, bytesMax: bytes, answers: [200, 206, 404, 416] },
    ...{ headers: { range: `bytes=${from}-${from + bytes - 1}` }, action: "read" },
    doubt: (given) => (given.status === 404 ? undefined : doubtOf(given, from, bytes)),
  });
  const { status, headers, body } = answer;
  if (status === 404) return undefined;
  const found = { bytes: body, size: sizeIn(answer) ?? 0, etag: headers.etag ?? "" };
  if (status === 416) {
    if (from > 0) throw outside(place, key, from + bytes, found.size);
    return { ...found, bytes: new Uint8Array() };
  }
  if (known !== undefined && (known.etag !== found.etag || known.size !== found.size)) {
    const cause = new Error("another object took its place while it was read");
    throw new StoreFailedError("read", addressOf(place, key), { cause });
  }
  return found;
}

/** Why an answer to a request for a range is wrong; undefined: it is right. */
function doubtOf(answer: StoreAnswer, from: number, bytes: number): string | undefined {
  const { status, headers, body } = answer;
  const whole = sizeIn(answer);
  if (whole === undefined) return "the answer of the store has no size";
  if (status === 416) return undefined;
  const wanted = Math.min(bytes, whole - from);
  if (body.length !== wanted) return `the store sent ${body.length} bytes of ${wanted}`;
  if (status === 200) return from === 0 ? undefined : "the store sent the object for a range of it";
  const [, start] = /^bytes (\d+)-/.exec(headers["content-range"] ?? "") ?? [];
  return Number(start) === from ? undefined : `the store sent bytes from ${start} on, not ${from}`;
}

function sizeIn({ status, headers }: StoreAnswer): number | undefined {
  const [, size] = /\/(\d+)$/.exec(headers["content-range"] ?? "") ?? [];
  if (status === 200) return Number(headers["content-length"]);
  // 416 without a size: the object is empty, and this store does not report its size.
  return size === undefined ? (status === 416 ? 0 : undefined) : Number(size);
}

function outside(place: StorePlace, key: string, end: number, bytes: number): StoreFailedError {
  const cause = new Error(`it has ${bytes} bytes, expected ${end} or more`);
  return new StoreFailedError("read", addressOf(place, key), { cause });
}

/** Most objects of one list. */
const listedMax = 1_000_000;

/**
 * @see ObjectStore.list. A store that supports only ListObjects version 1 sends no token for the
 * next page: the request for that page then names the last key as its `marker`.
 */
export function* list(place: StorePlace, below: string): Rule<string[]> {
  const keys: string[] = [];
  const refuse = (why: string) => {
    const address = addressOf(place, below);
    return new InputUnusableError(address, `Cannot list ${address}: ${why}`);
  };
  let next: Record<string, string> = {};
  for (;;) {
    const { body } = yield* ask(place, {
      ...{ method: "GET", key: "", answers: [200], action: "list" },
      query: {
        ...{ "list-type": "2", prefix: place.prefix + below, "encoding-type": "url" },
        ...{ "max-keys": "500", ...next },
      },
      doubt: ({ body: given }) =>
        textOf(given).trimEnd().endsWith("</ListBucketResult>")
          ? undefined
          : "the store sent a list of objects that ends early",
    });
    const text = textOf(body);
    const decode = valuesOf(text, "EncodingType")[0] === "url" ? decoded : (key: string) => key;
    const page = valuesOf(text, "Key").map(decode);
    keys.push(...page.map((key) => key.slice(place.prefix.length)));
    if (keys.length > listedMax) throw refuse(`it has more than ${listedMax} objects`);
    if (valuesOf(text, "IsTruncated")[0]?.trim().toLowerCase() !== "true") return keys.sort();
    const [token = ""] = valuesOf(text, "NextContinuationToken");
    const last = page.at(-1);
    if (token !== "") next = { "continuation-token": token };
    else if (last !== undefined && !page.includes(next.marker ?? "")) {
      next = { marker: last, "start-after": last };
    } else throw refuse("the store cuts the list of objects off, and sends no token for the rest");
  }
}

/** Most keys of one request, by the rules of S3. */
const removedAtOnce = 1000;

/** @see ObjectStore.remove */
export function* remove(place: StorePlace, keys: readonly string[]): Rule<void> {
  for (let at = 0; at < keys.length; at += removedAtOnce) {
    const names = keys.slice(at, at + removedAtOnce);
    const objects = names.map(
      (key) => `<Object><Key>${escaped(place.prefix + key)}</Key></Object>`,
    );
    const body = Buffer.from(`<Delete><Quiet>true</Quiet>${objects.join("")}</Delete>`);
    yield* ask(place, {
      ...{ method: "POST", key: "", query: { delete: "" }, body, answers: [200] },
      ...{ headers: { "content-md5": md5Of(body) }, action: "remove" },
      doubt: (answer) => {
        // Some stores also list removed keys, so that only an `Error` element means a failure.
        const [, problem] = /<Error>(.*?)<\/Error>/s.exec(textOf(answer.body)) ?? [];
        const [key = "an object"] = valuesOf(problem ?? "", "Key");
        return problem && `the store kept ${key} (${codeIn(answer.body)})`;
      },
    });
  }
}

/** The value of `content-md5`, which S3 requires in a request that removes several objects. */
export function md5Of(bytes: Uint8Array): string {
  return createHash("md5").update(bytes).digest("base64");
}

export function addressOf({ address }: StorePlace, key: string): string {
  return key === "" ? address : `${address}/${key}`;
}

/** The texts of all elements with a name. */
export function valuesOf(xml: string, name: string): string[] {
  const found = xml.matchAll(/<(\w+)(?:\s[^>]*)?>([^<]*)<\/\1>/g);
  return [...found].flatMap(([, one, text = ""]) => (one === name ? [unescaped(text)] : []));
}

const entities = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&" };

function unescaped(text: string): string {
  return text.replace(/&(?:lt|gt|quot|apos|amp|#(\d+));/g, (whole, code?: string) =>
    code === undefined
      ? entities[whole as keyof typeof entities]
      : String.fromCodePoint(Number(code)),
  );
}

export function escaped(text: string): string {
  return text.replace(/[<>"'&]/g, (one) => `&#${one.charCodeAt(0)};`);
}

function decoded(key: string): string {
  return decodeURIComponent(key.replaceAll("+", " "));
}

export function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
}

/** Characters at the beginning of a response in which an error code is searched. */
const problemMax = 4096;

/** The error code of a response; "" for a status below 300, whose body may be an object. */
export function codeOf({ status, body }: StoreAnswer): string {
  return status < 300 ? "" : codeIn(body);
}

export function codeIn(body: Uint8Array): string {
  return valuesOf(textOf(body.subarray(0, problemMax)), "Code")[0] ?? "";
}

function reasonOf({ status, body }: StoreAnswer, code: string): string {
  if (status === 0) return textOf(body);
  return `the store says ${status}${code === "" ? "" : ` ${code}`}`;
}

/** The error for a permanent refusal, with advice. */
function refusalOf(address: string, action: string, answer: StoreAnswer, code: string) {
  const { status, headers } = answer;
  const region = headers["x-amz-bucket-region"];
  const advice =
    region !== undefined && status < 400
      ? `the bucket lies in ${region}: set AWS_REGION`
      : code === "RequestTimeTooSkewed"
        ? "set the clock of this machine"
        : code === "NoSuchBucket"
          ? "check the name of the bucket, AWS_REGION and AWS_ENDPOINT_URL"
          : status === 401 || status === 403
            ? "check the credentials and their permissions: GetObject, PutObject, DeleteObject and " +
              "ListBucket, without which the store refuses a read of a missing object"
            : "check AWS_REGION and AWS_ENDPOINT_URL";
  const message = `Cannot ${action} ${address}: ${reasonOf(answer, code)}; ${advice}`;
  return new InputUnusableError(address, message);
}
