// Requests in plain JSON: records with the job's columns. Paths and names follow TensorFlow
// Serving's REST API (`:predict`, `instances`, `predictions`), extended by `:rank`.
//
//   predict   { instances: [record, …] }, or `records`
//   rank      { user: record, candidates: [record, …], top, by }

import { isAscii } from "node:buffer";
import {
  namesMax,
  parseExactly,
  RequestTooLargeError,
  RequestUnusableError,
  type SampleRecord,
} from "../../../../internal.ts";
import type { ScoringCall } from "../models/engine.ts";
import type { Response } from "../models/request-router.ts";

/** The methods of plain JSON requests. */
export const methods = ["predict", "rank"] as const;
export type Method = (typeof methods)[number];

/** A parsed request. */
export interface PlainRequest {
  readonly call: ScoringCall;
  readonly deadlineMs: number | undefined;
  readonly key: string | undefined;
}

/** Deepest nesting of a body; valid requests have five levels. */
const depthMax = 16;

/** Most objects of a body besides its samples: tensors, their parameters, and enclosing objects. */
const objectsBeside = 50_000;

/**
 * Parses the object in a body, with integers beyond 2^53 as bigints. Counts objects and names
 * before parsing, because parsing millions of either would delay all other requests for seconds.
 * @throws RequestUnusableError, RequestTooLargeError
 */
export function jsonOf(body: Uint8Array, samplesMax: number): Readonly<Record<string, unknown>> {
  const checkSize = ({ objects, names }: { readonly objects: number; readonly names: number }) => {
    if (names > namesMax) throw new RequestTooLargeError("different names", namesMax);
    if (objects <= samplesMax + objectsBeside) return;
    throw new RequestTooLargeError("samples", samplesMax, objects);
  };
  let value: unknown;
  try {
    value = parseExactly(textOf(body), { depthMax, checkSize });
  } catch (cause) {
    if (cause instanceof RequestTooLargeError) throw cause;
    const reason = cause instanceof Error ? cause.message.slice(0, 200) : "";
    throw new RequestUnusableError(`Expected the body to be JSON: ${reason}`, 400, { cause });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  const got = Array.isArray(value) ? "a list" : String(value).slice(0, 100);
  throw new RequestUnusableError(`Expected the body to be an object of JSON, got ${got}`);
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The text of a body. Throws if it is not UTF-8. */
function textOf(body: Uint8Array): string {
  if (!isAscii(body)) return decoder.decode(body);
  return Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1");
}

/** Parses the object of a request. @throws RequestUnusableError */
export function readPlain(method: Method, given: Readonly<Record<string, unknown>>): PlainRequest {
  const { key, timeout_ms: deadlineMs } = given;
  if (key !== undefined && !["string", "number", "bigint"].includes(typeof key)) {
    throw new RequestUnusableError("Expected `key` to be text or a number");
  }
  if (deadlineMs !== undefined && !(typeof deadlineMs === "number" && deadlineMs > 0)) {
    throw new RequestUnusableError("Expected `timeout_ms` to be a number > 0");
  }
  return {
    call: method === "predict" ? recordsIn(given) : rankingIn(given),
    key: key === undefined ? undefined : String(key),
    deadlineMs: deadlineMs as number | undefined,
  };
}

function recordsIn(given: Readonly<Record<string, unknown>>): ScoringCall {
  const { instances, records = instances } = given;
  if (!Array.isArray(records)) {
    throw new RequestUnusableError(
      "Expected `instances`, a list of records with the job's columns",
    );
  }
  return { kind: "records", records: records as SampleRecord[] };
}

function rankingIn(given: Readonly<Record<string, unknown>>): ScoringCall {
  const { user, candidates, top, by } = given;
  if (typeof user !== "object" || user === null || Array.isArray(user)) {
    throw new RequestUnusableError("Expected `user`, a record with the user's columns");
  }
  if (!Array.isArray(candidates) || !candidates.every(isRecord)) {
    throw new RequestUnusableError("Expected `candidates`, a list of records");
  }
  if (top !== undefined && !(Number.isSafeInteger(top) && (top as number) >= 0)) {
    throw new RequestUnusableError("Expected `top` to be an integer >= 0");
  }
  if (by !== undefined && typeof by !== "string") {
    throw new RequestUnusableError("Expected `by` to be the name of a task");
  }
  const options = { top: top as number | undefined, by };
  return {
    kind: "rank",
    user: user as SampleRecord,
    candidates: candidates as SampleRecord[],
    options,
  };
}

function isRecord(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The answer: a number per record, or an object per record for several tasks; rankings best first.
 */
export function plainAnswer({
  model,
  tasks,
  scores,
  version,
  order,
}: Response): Readonly<Record<string, unknown>> {
  const { digest, step, calibrated } = version;
  const about = { model, version: digest, step, ...(calibrated && { calibrated }) };
  const scoreOf = (at: number): number | Record<string, number> => {
    if (tasks.length === 1) return scores[at] ?? Number.NaN;
    const byTask = tasks.map(
      (task, i) => [task, scores[at * tasks.length + i] ?? Number.NaN] as const,
    );
    return Object.fromEntries(byTask);
  };
  if (order === undefined) {
    const count = scores.length / tasks.length;
    return { predictions: Array.from({ length: count }, (_, at) => scoreOf(at)), ...about };
  }
  return { ranked: Array.from(order, (index) => ({ index, score: scoreOf(index) })), ...about };
}
