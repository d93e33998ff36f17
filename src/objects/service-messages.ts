// The messages between a thread that waits for an object store and the service thread: the request
// is a message, the response is written to shared memory.
//
//   reply   | bell | kind | status | body bytes | header bytes |  headers (JSON)  |  body  |
//   object  | bytes of an object, if the request asked for some                            |

import type { StoreEnvironment } from "./environment.ts";
import { noAnswer, type StoreAnswer, type StoreRequest } from "./requests.ts";

/** A request for the service. Its body, if any, lies in shared memory. */
export interface ServiceRequest {
  readonly address: string;
  readonly env: StoreEnvironment;
  readonly attemptMs: number;
  readonly request: StoreRequest;
  readonly reply: SharedArrayBuffer;
  readonly object: Uint8Array | undefined;
}

const words = { bell: 0, kind: 1, status: 2, bodyBytes: 3, headerBytes: 4 } as const;
const textFrom = 32;
const kinds = { small: 0, object: 1, refused: 2 } as const;
/** Room for the headers and a small body. */
const smallBytes = 0x8000;

/** Allocates memory for a reply. `listBytes`: additional bytes for a list of objects. */
export function newReply(listBytes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(textFrom + smallBytes + listBytes);
}

/** Waits for the bell of a reply. Returns whether it has rung. */
export function waitForReply(reply: SharedArrayBuffer, ms: number): boolean {
  return Atomics.wait(new Int32Array(reply, 0, 1), words.bell, 0, ms) !== "timed-out";
}

/** Writes the answer to a request, and rings its bell. */
export function sendReply(asked: ServiceRequest, answer: StoreAnswer): void {
  const { reply, object } = asked;
  const isObject = object !== undefined && answer.body.buffer === object.buffer;
  const headers = Buffer.from(JSON.stringify(answer.headers));
  const small = isObject ? new Uint8Array() : answer.body;
  if (headers.length + small.length > reply.byteLength - textFrom) {
    sendReply(asked, noAnswer("an answer is too long"));
    return;
  }
  fill(reply, isObject ? kinds.object : kinds.small, headers, small, [
    answer.status,
    answer.body.length,
  ]);
}

/** Replies with the error of a permanent refusal, which `readReply` throws. */
export function sendRefusal({ reply }: ServiceRequest, path: string, message: string): void {
  const facts = Buffer.from(JSON.stringify({ path, message }).slice(0, smallBytes));
  fill(reply, kinds.refused, facts, new Uint8Array(), [0, 0]);
}

function fill(
  reply: SharedArrayBuffer,
  kind: number,
  headers: Uint8Array,
  body: Uint8Array,
  [status, bodyBytes]: readonly [number, number],
): void {
  const [facts, text] = [new Int32Array(reply, 0, 8), new Uint8Array(reply, textFrom)];
  text.set(headers);
  text.set(body, headers.length);
  facts[words.kind] = kind;
  facts[words.status] = status;
  facts[words.bodyBytes] = bodyBytes;
  facts[words.headerBytes] = headers.length;
  Atomics.store(facts, words.bell, 1);
  Atomics.notify(facts, words.bell);
}

/** Reads a reply after its bell. For a refusal, throws the error that `refuse` makes. */
export function readReply(
  { reply, object }: Pick<ServiceRequest, "reply" | "object">,
  refuse: (path: string, message: string) => Error,
): StoreAnswer {
  const facts = new Int32Array(reply, 0, 8);
  const [, kind, status = 0, bodyBytes = 0, headerBytes = 0] = facts;
  const text = Buffer.from(reply, textFrom);
  const headers = JSON.parse(text.toString("utf8", 0, headerBytes)) as Record<string, string>;
  if (kind === kinds.refused) throw refuse(headers.path ?? "", headers.message ?? "");
  const small = text.subarray(headerBytes, headerBytes + bodyBytes);
  const isObject = kind === kinds.object && object !== undefined;
  return { status, headers, body: isObject ? object.subarray(0, bodyBytes) : small };
}
