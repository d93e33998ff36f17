// Hostile messages of a client that knows the protocols and is malicious or broken. The same index
// gives the same message.

import { encode } from "@msgpack/msgpack";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import { messages } from "../../../src/wire/messages/messages.ts";

/** A payload and its headers. */
export interface HostileFrame {
  readonly payload: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

/** The random stream of message `index`. */
export function drawsOf(index: number): RandomStream {
  return new RandomStream(7, purposes.syntheticIds, index);
}

export function oneOf<Item>(stream: RandomStream, items: readonly Item[]): Item {
  return items[stream.below(items.length)] as Item;
}

const strings = [
  "",
  "r1",
  "__proto__",
  "constructor",
  "../../../../etc/passwd",
  "a\u0000b",
  "\u202e\ud800",
  "x".repeat(5000),
  "$(reboot)",
  "*",
  ">",
  "osiris.c1.cluster.0.hosts.0.x",
];
const numbers = [0, -0, -1, 1e308, -1e308, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, 0.1];
const keys = ["job", "run", "key", "since", "most", "devices", "model", "data", "tables", "kind"];
const foulKeys = ["__proto__", "constructor", "prototype", "toString", "then", "toJSON", "length"];

/**
 * A hostile value: of the wrong type, too deep, too long, or with names of built-in object members.
 */
export function hostileValue(stream: RandomStream, depth = 0): unknown {
  switch (stream.below(depth > 40 ? 4 : 9)) {
    case 0:
      return oneOf(stream, [null, true, false]);
    case 1:
      return oneOf(stream, numbers);
    case 2:
    case 3:
      return oneOf(stream, strings);
    case 4:
      return Array.from({ length: stream.below(4) }, () => hostileValue(stream, depth + 1));
    case 5:
      return Array(stream.below(200)).fill(hostileValue(stream, 41));
    case 6:
      return nested(stream.below(60), hostileValue(stream, 41));
    default: {
      const from = stream.below(4) === 0 ? foulKeys : keys;
      const names = Array.from({ length: stream.below(5) }, () => oneOf(stream, from));
      const entries = names.map((name) => [name, hostileValue(stream, depth + 1)]);
      return Object.fromEntries(entries); // Own properties, `__proto__` included.
    }
  }
}

function nested(levels: number, inner: unknown): unknown {
  return levels === 0 ? inner : [nested(levels - 1, inner)];
}

/** The largest frame that a NATS client sends. */
const sentBytesMax = 1_000_000;

/**
 * A value as JSON or msgpack, or bytes that only resemble it. `valid`: a value to damage slightly.
 */
export function hostileFrame(stream: RandomStream, valid: unknown): HostileFrame {
  const value = stream.below(3) === 0 ? damaged(stream, valid) : hostileValue(stream);
  const isJson = stream.below(2) === 0;
  const whole = isJson ? Buffer.from(JSON.stringify(value)) : Buffer.from(packed(value));
  const payload = bytesOf(stream, whole).subarray(0, sentBytesMax);
  return { payload, headers: headersOf(stream, isJson) };
}

function packed(value: unknown): Uint8Array {
  try {
    return encode(value, { maxDepth: 100 });
  } catch {
    return Buffer.from([0xc1]); // Some values have no msgpack form.
  }
}

/** A valid value with one entry replaced. */
function damaged(stream: RandomStream, value: unknown): unknown {
  if (typeof value !== "object" || value === null || stream.below(4) === 0) {
    return hostileValue(stream, 30);
  }
  const entries = Object.entries(value);
  const at = stream.below(entries.length + 1);
  const changed = entries.map(([name, one], i) => [name, i === at ? damaged(stream, one) : one]);
  if (Array.isArray(value)) return changed.map(([, one]) => one);
  return Object.fromEntries([...changed, ...(at === entries.length ? [["__proto__", 1]] : [])]);
}

function bytesOf(stream: RandomStream, whole: Buffer): Buffer {
  switch (stream.below(8)) {
    case 0:
      return whole.subarray(0, stream.below(whole.length + 1));
    case 1: {
      const wrong = Buffer.from(whole);
      if (wrong.length > 0) wrong[stream.below(wrong.length)] = stream.below(256);
      return wrong;
    }
    case 2: // Lengths claimed by a header: arrays, maps, strings, bytes of 4 GiB.
      return Buffer.from([oneOf(stream, [0xdd, 0xdf, 0xdb, 0xc6, 0xc9]), 255, 255, 255, 255, 1]);
    case 3:
      return Buffer.alloc(stream.below(20_000), oneOf(stream, [0x91, 0x81, 0x5b, 0x7b, 0xff]));
    default:
      return whole;
  }
}

function headersOf(stream: RandomStream, isJson: boolean): Record<string, string> {
  const right = isJson ? "application/json" : "application/msgpack";
  switch (stream.below(8)) {
    case 0:
      return {};
    case 1:
      return { "content-type": isJson ? "application/msgpack" : "application/json" };
    case 2:
      return { "Content-Type": oneOf(stream, ["text/html", "", "application/json; a=b"]) };
    case 3:
      return { "content-type": right, "osiris-crc": oneOf(stream, ["", "00000000", "zzz"]) };
    case 4:
      return { "content-type": right, Status: "503", "Nats-Service-Error": "x" };
    default:
      return { "content-type": right };
  }
}

/**
 * A frame to an actor, well formed half of the time. `type`: the message type that it resembles.
 */
export function hostileEnvelope(stream: RandomStream): HostileFrame & { readonly type: string } {
  const type = oneOf(stream, [...Object.keys(messages.schemas), "host.none", "__proto__"]);
  const from = oneOf(stream, ["coordinator:0", "", "x".repeat(200), "hosts:-1"]);
  const body = { ...bodyOf(stream), ...(stream.below(3) === 0 ? { extra: 1 } : {}) };
  const envelope = [oneOf(stream, [1, 1, 1, 2, "1"]), type, "cluster", 0, from, body];
  if (stream.below(3) === 0) return { ...hostileFrame(stream, envelope), type };
  return { payload: packed(envelope).subarray(0, sentBytesMax), headers: {}, type };
}

/** A message body with the usual fields and implausible numbers. */
function bodyOf(stream: RandomStream): Record<string, unknown> {
  const count = () => oneOf(stream, [0, 1, 7, 2 ** 40, -1, 0.5]);
  const error = { name: "E", code: "PEER_LOST", recovery: "stop", message: "m" };
  return {
    ...{ command: count(), host: count(), device: count(), step: count(), cut: count() },
    ...{ key: count(), devices: count(), pid: count(), beat: count(), fraction: count() },
    ...{ job: hostileText(stream), plan: hostileValue(stream, 30), assembly: "{}", error },
    ...{ actor: "device:0", arithmetic: "native-9", version: "0.0.0", machine: "m" },
    ...{ isLeaving: stream.below(2) === 0, mayLeave: false, reason: "hostile", manifest: "m" },
  };
}

/** A value, or JSON of one. */
function hostileText(stream: RandomStream): unknown {
  const value = hostileValue(stream, 30);
  if (stream.below(2) === 0) return value;
  return (
    JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}` : inner)) ?? ""
  );
}

/** Protocol lines of a client to the broker: mostly `login` first. */
export function hostileTalk(stream: RandomStream, login: string): Buffer {
  const lines = Array.from({ length: 1 + stream.below(4) }, () => hostileLine(stream));
  const talk = Buffer.from([...(stream.below(4) === 0 ? [] : [login]), ...lines].join("\r\n"));
  const cut = stream.below(3) === 0 ? talk.subarray(0, stream.below(talk.length)) : talk;
  return stream.below(2) === 0 ? Buffer.concat([cut, Buffer.from("\r\n")]) : cut;
}

function hostileLine(stream: RandomStream): string {
  const size = oneOf(stream, ["0", "5", "-1", "99999999999", "1e3", "NaN", "2000000", "0x10"]);
  const subject = oneOf(stream, ["a", "a..b", ">", "a b", "x".repeat(5000), "$SYS.>", "_INBOX.*"]);
  return oneOf(stream, [
    `PUB ${subject} ${size}\r\nhello`,
    `HPUB ${subject} ${size} ${size}\r\nNATS/1.0\r\n\r\nhello`,
    `HPUB ${subject} r 3 9\r\nXXXhello!`,
    `SUB ${subject} ${"1".repeat(stream.below(300))}`,
    `SUB ${subject} ${subject} ${subject} 1`,
    `UNSUB ${size} ${size}`,
    "CONNECT {",
    `CONNECT {"name":"${"n".repeat(stream.below(6000))}"}`,
    'CONNECT {"__proto__":{"auth_token":""},"verbose":"yes"}',
    "INFO {}",
    "MSG a 1 5\r\nhello",
    "\u0000\u0001\u0002",
    "x".repeat(stream.below(9000)),
    "PING",
    "\r\n\r\n",
  ]);
}
