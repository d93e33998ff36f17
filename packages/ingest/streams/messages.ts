// Decodes messages of streams: features of a request, an event, or a tick. A message is a JSON or
// MessagePack object. Its faults have the same wording as the faults of lines in data files.

import { decode } from "@msgpack/msgpack";
import {
  type LineFault,
  momentOf,
  objectIn,
  type StoredMessage,
  show,
  shownJson,
} from "../../../internal.ts";
import type { Loose } from "../warehouse/inferred-type.ts";
import { looseOf } from "../warehouse/loose-values.ts";
import type { IngestSpec } from "./ingest-options.ts";

/** Features of a request. */
export interface FeaturesMessage {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly timeMs: number;
  readonly features: readonly (readonly [name: string, value: Loose])[];
  /** Size of the message. */
  readonly bytes: number;
}

/** An event of a request. */
export interface EventMessage {
  readonly id: string;
  readonly timeMs: number;
  /** The label, then the values of the options; undefined: missing. */
  readonly numbers: readonly (number | undefined)[];
}

/** A decoded message; a tick, which has only a time and advances its stream's time; or a fault. */
export type Decoded<Message> =
  | { readonly kind: "message"; readonly message: Message }
  | { readonly kind: "tick"; readonly timeMs: number }
  | { readonly kind: "bad"; readonly fault: LineFault };

/** Most milliseconds by which a message's time may exceed the time when the stream stored it. */
const aheadMsMax = 60 * 60 * 1000;
/** Latest time that a partition name can express: the end of year 9999. */
const timeMsMax = 253_402_300_799_999;

type Named = Pick<IngestSpec, "id" | "time" | "timeUnit" | "label" | "values">;

/** Decodes features. Members that come from events, such as the label, are left out. */
export function featuresIn(stored: StoredMessage, named: Named): Decoded<FeaturesMessage> {
  const read = headIn(stored, named);
  if (read.kind !== "head") return read;
  const { object, id, timeMs } = read;
  const reserved = new Set([named.id, named.time, named.label, sequenceColumn, ...named.values]);
  const features: (readonly [string, Loose])[] = [];
  for (const [name, value] of Object.entries(object)) {
    if (reserved.has(name) || value === null || value === undefined) continue;
    const loose = looseOf(value);
    if (loose === undefined) {
      const kind = `expected \`${name}\` to be a value, a list of values, or weights by id`;
      return bad(kind, value);
    }
    features.push([name, loose]);
  }
  return { kind: "message", message: { id, timeMs, features, bytes: stored.data.length } };
}

export function eventIn(stored: StoredMessage, named: Named): Decoded<EventMessage> {
  const read = headIn(stored, named);
  if (read.kind !== "head") return read;
  const { object, id, timeMs } = read;
  const numbers: (number | undefined)[] = [];
  for (const name of [named.label, ...named.values]) {
    const value = object[name];
    const isOther = typeof value === "boolean" || typeof value === "bigint";
    const number = isOther ? Number(value) : value;
    const isMissing = number === undefined || number === null;
    if (isMissing && name !== named.label) numbers.push(undefined);
    else if (typeof number === "number" && Number.isFinite(number)) numbers.push(number);
    else return bad(`expected \`${name}\` of an event to be a number`, value);
  }
  return { kind: "message", message: { id, timeMs, numbers } };
}

/** The column with the sequence of the row's message of features. */
export const sequenceColumn = "sequence";

interface Head {
  readonly kind: "head";
  readonly object: Readonly<Record<string, unknown>>;
  readonly id: string;
  readonly timeMs: number;
}

/** Decodes the members that features and events have in common: a request id and a time. */
function headIn(
  { data, storedMs }: StoredMessage,
  named: Named,
): Head | Exclude<Decoded<never>, { kind: "message" }> {
  const object = objectOf(data);
  if (object === undefined) {
    const text = Buffer.from(data.subarray(0, 100)).toString("latin1");
    const kind = "expected an object of JSON or MessagePack";
    return { kind: "bad", fault: { kind, got: show(text) } };
  }
  const timeMs = timeOf(object[named.time], named.timeUnit);
  if (timeMs === undefined) {
    const kind = `expected \`${named.time}\` to be a time from 1970 on`;
    return bad(kind, object[named.time]);
  }
  if (timeMs > storedMs + aheadMsMax) {
    const kind = `expected \`${named.time}\` to be within an hour after the stream stored it`;
    return bad(kind, object[named.time]);
  }
  if (Object.keys(object).length === 1) return { kind: "tick", timeMs };
  const id = object[named.id];
  const isInteger = typeof id === "bigint" || Number.isSafeInteger(id);
  const isId = (typeof id === "string" && id !== "") || isInteger;
  if (!isId) return bad(`expected \`${named.id}\` to be text or an integer`, id);
  return { kind: "head", object, id: String(id), timeMs };
}

function bad(kind: string, value: unknown): { kind: "bad"; fault: LineFault } {
  const text = value === undefined ? undefined : shownJson(value);
  const bytes = text === undefined ? undefined : Buffer.from(text, "utf8").toString("latin1");
  return { kind: "bad", fault: { kind, got: show(bytes) } };
}

/** Whether a first byte begins a MessagePack map; no JSON text begins with these bytes. */
function isMessagePack(first: number): boolean {
  return (first >= 0x80 && first <= 0x8f) || first === 0xde || first === 0xdf;
}

function objectOf(data: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  if (!isMessagePack(data[0] ?? 0)) return objectIn(Buffer.from(data).toString("latin1"));
  try {
    const object = plain(decode(data, { useBigInt64: true, mapKeyConverter: markedKey }), true);
    return object as Readonly<Record<string, unknown>>;
  } catch {
    return undefined;
  }
}

/** Prefix of decoded map keys, because a JavaScript object reorders integer-like keys. */
const keyMark = ":";

function markedKey(key: unknown): string {
  if (["string", "number", "bigint"].includes(typeof key)) return `${keyMark}${key}`;
  throw new TypeError("a key is text or a number");
}

/**
 * Converts a decoded MessagePack value to the form of decoded JSON: a 64-bit integer stays a bigint
 * only if a float64 cannot hold it, and maps inside the outermost one become Maps in their original
 * order.
 */
function plain(value: unknown, isOutermost = false): unknown {
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (Array.isArray(value)) return value.map((one) => plain(one));
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return "";
  const members = Object.entries(value).map(([name, own]) => {
    return [name.slice(keyMark.length), plain(own)] as const;
  });
  return isOutermost ? Object.fromEntries(members) : new Map(members);
}

const unitMs = { s: 1000, ms: 1, us: 1e-3 } as const;

function timeOf(value: unknown, unit: keyof typeof unitMs): number | undefined {
  if (!["string", "number", "bigint"].includes(typeof value)) return undefined;
  const moment = momentOf(String(value));
  if (moment === undefined) return undefined;
  const ms = moment.form === "date" ? moment.value : moment.value * unitMs[unit];
  const timeMs = Math.floor(ms);
  return timeMs >= 0 && timeMs <= timeMsMax ? timeMs : undefined;
}
