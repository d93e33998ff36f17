// Writes an object in parts, several of which travel at once (S3's multipart upload). An object of
// one part is a plain PUT.
//
// Invariants
//   U1. Memory: at most `partsAtOnce + 1` parts, one that is filled, and others that are sent.
//   U2. A part stays in memory until the store has it, so that it can be sent again.

import { InputUnusableError } from "../errors/errors.ts";
import {
  addressOf,
  ask,
  codeIn,
  fork,
  join,
  put,
  type Rule,
  type StorePlace,
  size,
  type Task,
  textOf,
  valuesOf,
} from "./rules.ts";

/** Bytes of a part: more than the least that S3 takes (5 MiB). */
export const partBytes = 0x80_0000;
const partsAtOnce = 3;
/** Most parts of an object (S3). */
const partsMax = 10_000;

/** A part that is being sent. */
interface Part {
  readonly number: number;
  readonly bytes: Uint8Array;
  task: Task<string>;
}

export interface UploadRules {
  write(bytes: Uint8Array): Rule<void>;
  finish(): Rule<void>;
  discard(): Rule<void>;
}

/** @see ObjectStore.upload */
export function uploadTo(place: StorePlace, key: string): UploadRules {
  const object = { key: place.prefix + key, action: "write" } as const;
  let id: string | undefined;
  let total = 0;
  let filling: Uint8Array = new Uint8Array(0);
  let filled = 0;
  /** Parts that are being sent, the oldest first. */
  const going: Part[] = [];
  const etags: string[] = [];

  function* begin(): Rule<void> {
    const { body } = yield* ask(place, {
      ...{ ...object, method: "POST", query: { uploads: "" }, answers: [200] },
      doubt: (answer) => (uploadIn(answer.body) === undefined ? "the store began none" : undefined),
    });
    id = uploadIn(body);
  }

  function* sendPart(number: number, body: Uint8Array): Rule<string> {
    const query = { partNumber: String(number), uploadId: id ?? "" };
    const question = { ...object, method: "PUT", query, body, answers: [200] } as const;
    const { headers } = yield* ask(place, question);
    return headers.etag ?? "";
  }

  /** Waits for the oldest part. If it failed, throws its error, after starting it again. */
  function* settle(): Rule<void> {
    const [part] = going;
    if (part === undefined) return;
    try {
      etags[part.number - 1] = yield* join(part.task);
      going.shift();
    } catch (error) {
      part.task = yield* fork(sendPart(part.number, part.bytes)); // U2
      throw error;
    }
  }

  function* flush(): Rule<void> {
    if (id === undefined) yield* begin();
    if (going.length >= partsAtOnce) yield* settle(); // U1
    const number = etags.length + going.length + 1;
    if (number > partsMax) {
      const most = `an object has at most ${partsMax} parts of ${partBytes} bytes`;
      const message = `Cannot write ${addressOf(place, key)}: ${most}; use smaller parts`;
      throw new InputUnusableError(addressOf(place, key), message);
    }
    const bytes = filling.subarray(0, filled);
    going.push({ number, bytes, task: yield* fork(sendPart(number, bytes)) });
    [filling, filled] = [new Uint8Array(0), 0];
  }

  /** Joins the parts to the object. After a lost response, the object may already exist. */
  function* complete(): Rule<void> {
    const parts = etags.map((etag, i) => {
      const bare = etag.replaceAll('"', "");
      return `<Part><PartNumber>${i + 1}</PartNumber><ETag>&quot;${bare}&quot;</ETag></Part>`;
    });
    const answer = yield* ask(place, {
      ...{ ...object, method: "POST", query: { uploadId: id ?? "" }, answers: [200, 404] },
      body: Buffer.from(`<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`),
      // The status is sent before the parts are joined, which may fail.
      doubt: ({ status, body }) => {
        const code = status === 200 ? codeIn(body) : "";
        return code === "" ? undefined : `the store says ${code}`;
      },
    });
    if (answer.status === 200 || (yield* size(place, key)) === total) return;
    const message = `Cannot write ${addressOf(place, key)}: the store has lost the upload`;
    throw new InputUnusableError(addressOf(place, key), message);
  }

  return {
    *write(bytes) {
      for (let at = 0; at < bytes.length; ) {
        if (filled === partBytes) yield* flush();
        if (filled === filling.length) filling = grown(place, filling);
        const count = Math.min(bytes.length - at, filling.length - filled);
        filling.set(bytes.subarray(at, at + count), filled);
        filled += count;
        total += count;
        at += count;
      }
    },
    *finish() {
      if (id === undefined && etags.length + going.length === 0) {
        yield* put(place, key, filling.subarray(0, filled));
        return;
      }
      if (filled > 0) yield* flush();
      while (going.length > 0) yield* settle();
      yield* complete();
    },
    *discard() {
      for (const { task } of going.splice(0)) {
        try {
          yield* join(task);
        } catch {} // The part is discarded anyway.
      }
      if (id === undefined) return;
      const query = { uploadId: id };
      yield* ask(place, { ...object, method: "DELETE", query, answers: [200, 204, 404] });
    },
  };
}

function uploadIn(body: Uint8Array): string | undefined {
  return valuesOf(textOf(body), "UploadId")[0];
}

/** Copies the bytes into larger memory, at most that of a part. */
function grown(place: StorePlace, bytes: Uint8Array): Uint8Array {
  const larger = place.newBytes(Math.min(partBytes, Math.max(0x1_0000, 2 * bytes.length)));
  larger.set(bytes);
  return larger;
}
