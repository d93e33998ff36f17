// What each call of an object store asks, and what it makes of the answers: retries, lost answers,
// and errors. The rules are generators, so that one text serves stores that return promises
// (later.ts) and those that block the thread (blocking.ts).

import { createHash } from "node:crypto";
import { InputUnusableError, StoreFailedError } from "../errors/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { StoreAnswer, StoreRequest } from "./requests.ts";

/** What a rule wants done; its runner returns the result into the rule. */
export type Effect =
  | { readonly kind: "send"; readonly request: StoreRequest }
  | { readonly kind: "pause"; readonly ms: number }
  /** Starts another rule, which goes on beside this one. The result is a task to join. */
  | { readonly kind: "fork"; readonly rule: Rule<unknown> }
  | { readonly kind: "join"; readonly task: unknown };

export type Rule<Result> = Generator<Effect, Result, unknown>;

/** Runs rules to their ends: at once, or as a promise. */
export interface RuleRunner {
  readonly place: StorePlace;
  readonly run: <Result>(rule: Rule<Result>) => Result | Promise<Result>;
}

/** The runners of the stores that are open, for rules that are no calls of the port. */
export const runners = new WeakMap<object, RuleRunner>();

/** A rule that was started beside others. Only a runner looks inside. */
export interface Task<Result> {
  readonly handle: unknown;
  readonly result?: Result;
}

/** Starts a rule beside this one. */
export function* fork<Result>(rule: Rule<Result>): Rule<Task<Result>> {
  return { handle: yield { kind: "fork", rule } };
}

/** Waits for a rule that was started. Throws its error. */
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

/** Attempts over about a minute, as a store that moves load to other servers refuses for long. */
export const usualStoreLimits: StoreLimits = { attemptsMax: 9, attemptMs: 10_000, backoffMs: 100 };
const backoffMsMax = 10_000;

/** Whose objects: a bucket's, below a prefix. */
export interface StorePlace {
  readonly address: string;
  /** "", or a prefix that ends in `/`. */
  readonly prefix: string;
  readonly limits: StoreLimits;
  /** Memory for bytes that travel: shared, where another thread sends and receives them. */
  newBytes(count: number): Uint8Array;
  /** The store behind the address, which one environment may have here and another there. */
  readonly endpoint: string;
  readonly clock: Clock;
  /** A name that nobody else uses. */
  newName(): string;
}

/** A request with the statuses that answer it, and with what it does, for messages. */
interface Question extends StoreRequest {
  readonly answers: readonly number[];
  readonly action: "read" | "write" | "list" | "remove";
  /** Refuses an answer that has the right status, for a reason that may pass. */
  readonly doubt?: (answer: StoreAnswer) => string | undefined;
}

const done = [200, 201, 204];
/** What stores say of credentials that were valid. */
export const expired = /^(ExpiredToken|ExpiredTokenException|TokenRefreshRequired)$/;
/** Refusals that another attempt may not meet: bytes were damaged, or a connection was too slow. */
const passing = /^(BadDigest|XAmzContentSHA256Mismatch|RequestTimeout|IncompleteBody|SlowDown)$/;

/**
 * Sends a request until an answer counts.
 * @throws StoreFailedError after the last attempt; InputUnusableError if the store refuses for good
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
    if (isExpired && attempt === 1) continue; // The connection has new credentials.
    const longest = Math.min(backoffMsMax, limits.backoffMs * 2 ** (attempt - 1));
    const asked = 1000 * (Number(answer.headers["retry-after"]) || 0);
    yield { kind: "pause", ms: Math.max(longest, Math.min(backoffMsMax, asked)) };
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
 * @see ObjectStore.create. A refused caller always compares: an answer may be lost, and a proxy may
 * send a request twice, so that the second is refused because of the first.
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
 * @see ObjectStore.size. Reads the first bytes instead of sending HEAD: a refused HEAD has no body,
 * so nothing would say whether the credentials have expired.
 */
export function* size(place: StorePlace, key: string): Rule<number | undefined> {
  const first = yield* piece(place, key, { from: 0, bytes: 16 });
  return first?.size;
}

/** Bytes of an object that are read first, which are all of most objects. */
const firstBytes = 0x10_0000;
/** Bytes of a request for a part of an object: much more than a round trip's worth. */
export const rangeBytes = 0x40_0000;
/** Ranges that travel at once. */
export const rangesAtOnce = 4;

/** @see ObjectStore.get. The bytes may lie in shared memory. */
export function* get(
  place: StorePlace,
  key: string,
  range?: { readonly from: number; readonly bytes: number },
): Rule<Uint8Array | undefined> {
  const from = range?.from ?? 0;
  const asked = range?.bytes ?? firstBytes;
  if (asked === 0) return new Uint8Array();
  const first = yield* piece(place, key, { from, bytes: Math.min(asked, rangeBytes) });
  if (first === undefined) return undefined;
  const end = range === undefined ? first.size : from + range.bytes;
  if (end > first.size) throw outside(place, key, end, first.size);
  if (from + first.bytes.length === end) return first.bytes;
  const whole = new Uint8Array(end - from); // The caller's own.
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
    if (oldest === undefined || got === undefined) return undefined; // Removed meanwhile.
    whole.set(got.bytes, oldest.at - from);
  }
  return whole;
}

/** A part of an object, with what the store said of the whole. */
export interface Piece {
  readonly bytes: Uint8Array;
  readonly size: number;
  readonly etag: string;
}

/** Requests a range; at the end of the object, it may be shorter. `known`: of the same object. */
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
  if (whole === undefined) return "the store told no size";
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
  // Some stores do not tell the size of an empty object, which has no range.
  return size === undefined ? (status === 416 ? 0 : undefined) : Number(size);
}

function outside(place: StorePlace, key: string, end: number, bytes: number): StoreFailedError {
  const cause = new Error(`it has ${bytes} bytes, expected ${end} or more`);
  return new StoreFailedError("read", addressOf(place, key), { cause });
}

/** @see ObjectStore.list */
export function* list(place: StorePlace, below: string): Rule<string[]> {
  const keys: string[] = [];
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
    keys.push(...valuesOf(text, "Key").map((key) => decode(key).slice(place.prefix.length)));
    const [token = ""] = valuesOf(text, "NextContinuationToken");
    if (valuesOf(text, "IsTruncated")[0] !== "true" || token === "") break;
    next = { "continuation-token": token };
  }
  return keys.sort();
}

/** Most keys of one request (S3). */
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
        // Some stores name what they removed, too.
        const [, problem] = /<Error>(.*?)<\/Error>/s.exec(textOf(answer.body)) ?? [];
        const [key = "an object"] = valuesOf(problem ?? "", "Key");
        return problem && `the store kept ${key} (${codeIn(answer.body)})`;
      },
    });
  }
}

/** For headers of requests: S3 demands it where many objects are removed. */
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

/** Characters of an answer that are searched for a code. */
const problemMax = 4096;

/** The store's code of an error. A list of errors comes with status 200, as objects do. */
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

/** The error for a store that refuses for good, with advice. */
function refusalOf(address: string, action: string, answer: StoreAnswer, code: string) {
  const { status, headers } = answer;
  const region = headers["x-amz-bucket-region"];
  const advice =
    region !== undefined && status < 400
      ? `the bucket lies in ${region}: set AWS_REGION`
      : code === "RequestTimeTooSkewed"
        ? "set the clock of this machine"
        : code === "NoSuchBucket"
          ? "look at the name of the bucket, AWS_REGION and AWS_ENDPOINT_URL"
          : status === 401 || status === 403
            ? "look at the credentials, and at what they may do: GetObject, PutObject, " +
              "DeleteObject and ListBucket, without which an object that is missing is refused"
            : "look at AWS_REGION and AWS_ENDPOINT_URL";
  const message = `Cannot ${action} ${address}: ${reasonOf(answer, code)}; ${advice}`;
  return new InputUnusableError(address, message);
}
