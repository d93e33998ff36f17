// A strict S3 store in memory, with the faults of real stores and of the network. Requests and
// responses are plain data: stores of simulated machines (`BucketMachine`) call it directly, and
// tests of the client call it over HTTP (bucket-server.ts).
//
// Invariants
//   B1. Requests are carried out one at a time, each completely or not at all.
//   B2. The store depends on the requests and the script only: it has no clock and no randomness.
//   B3. Without a fault, the store keeps every promise of S3: `If-None-Match: *`, checksums, ETags,
//       least bytes of a part, and lists in the order of keys.

import { createHash } from "node:crypto";
import type { StoreAnswer, StoreRequest } from "../../src/objects/requests.ts";
import { escaped, textOf, valuesOf } from "../../src/objects/rules.ts";

/** The fault of one request. */
export type StoreFault =
  /** The request is lost before it reaches the store. */
  | { readonly kind: "request-lost" }
  /** The request is carried out, but its response is lost. */
  | { readonly kind: "answer-lost" }
  /** The request is carried out, and a second time after `after` other requests. */
  | { readonly kind: "duplicated"; readonly after: number }
  /** There is no response, and the request is carried out only after `after` other requests. */
  | { readonly kind: "delayed"; readonly after: number }
  /** The connection breaks within the body of the request, or else of the response. */
  | { readonly kind: "torn" }
  /** The store refuses the request temporarily, or reports expired credentials. */
  | { readonly kind: "unavailable" | "conflict" | "expired" }
  /** The response arrives after `ms`, if the deadline of its receiver allows it. */
  | { readonly kind: "slow"; readonly ms: number };

/** Deviations of a store from the guarantees of S3. */
export interface BucketFlaws {
  /** Ignores `If-None-Match`, and overwrites, as some stores do. */
  readonly isUnfenced?: boolean;
  /** Ignores checksums. */
  readonly takesDamaged?: boolean;
  /** Lists do not show the last `listLag` changes. */
  readonly listLag?: number;
  /** Sends ETags without quotes. */
  readonly hasBareEtags?: boolean;
}

interface Stored {
  readonly bytes: Uint8Array;
  readonly etag: string;
}

interface Begun {
  readonly key: string;
  readonly parts: Map<number, Stored>;
}

interface Scripted {
  readonly is: (request: StoreRequest, index: number) => boolean;
  readonly fault: StoreFault;
  times: number;
}

/** A response, and its delay. */
export interface BucketAnswer extends StoreAnswer {
  readonly afterMs: number;
}

export class MemoryBucket {
  readonly name: string;
  readonly #flaws: BucketFlaws;
  readonly #objects = new Map<string, Stored>();
  readonly #uploads = new Map<string, Begun>();
  readonly #script: Scripted[] = [];
  /** Delayed requests; each is carried out before request number `at`. */
  #late: { readonly at: number; readonly request: StoreRequest }[] = [];
  /** The last changes of keys, which lists do not show yet. */
  readonly #changes: { readonly key: string; readonly isThere: boolean }[] = [];
  #begun = 0;
  #requests = 0;

  constructor(name = "bucket", flaws: BucketFlaws = {}) {
    [this.name, this.#flaws] = [name, flaws];
  }

  /** Requests so far. */
  get requests(): number {
    return this.#requests;
  }

  /** The true keys of all objects, sorted. */
  get keys(): string[] {
    return [...this.#objects.keys()].sort();
  }

  /** Number of uploads that were neither finished nor cancelled. */
  get openUploads(): number {
    return this.#uploads.size;
  }

  bytesOf(key: string): Uint8Array | undefined {
    return this.#objects.get(key)?.bytes;
  }

  /** Replaces an object, or removes it without bytes, unnoticed by the clients of the store. */
  plant(key: string, bytes?: Uint8Array): void {
    this.#store(key, bytes);
  }

  /**
   * Scripts a fault: of the `which`-th request from now (1 is the next), or of the next `times`
   * requests that `which` selects. If several apply to a request, the first one is injected.
   */
  fault(
    which: number | ((request: StoreRequest, index: number) => boolean),
    fault: StoreFault,
    times = 1,
  ): void {
    const at = this.#requests + Number(which);
    const is = typeof which === "number" ? (_: StoreRequest, index: number) => index === at : which;
    this.#script.push({ is, fault, times });
  }

  answer(request: StoreRequest): BucketAnswer {
    const index = ++this.#requests;
    const due = this.#late.filter(({ at }) => at <= index);
    this.#late = this.#late.filter(({ at }) => at > index);
    for (const one of due) this.#carryOut(one.request);
    const scripted = this.#script.find(({ is, times }) => times > 0 && is(request, index));
    if (scripted === undefined) return { ...this.#carryOut(request), afterMs: 0 };
    scripted.times--;
    return this.#broken(request, index, scripted.fault);
  }

  #broken(request: StoreRequest, index: number, fault: StoreFault): BucketAnswer {
    const late = (after: number) => {
      const { body } = request; // The sender may reuse its memory.
      const kept = body === undefined ? request : { ...request, body: new Uint8Array(body) };
      this.#late.push({ at: index + after + 1, request: kept });
    };
    switch (fault.kind) {
      case "request-lost":
        return { ...lost, afterMs: 0 };
      case "answer-lost":
        this.#carryOut(request);
        return { ...lost, afterMs: 0 };
      case "delayed":
        late(fault.after);
        return { ...lost, afterMs: 0 };
      case "duplicated":
        late(fault.after);
        return { ...this.#carryOut(request), afterMs: 0 };
      case "torn": {
        if (request.body !== undefined) return { ...lost, afterMs: 0 };
        const { body, ...answer } = this.#carryOut(request);
        return { ...answer, body: body.subarray(0, body.length >> 1), afterMs: 0 };
      }
      case "unavailable":
        return { ...problem(503, "SlowDown"), afterMs: 0 };
      case "conflict":
        return { ...problem(409, "ConditionalRequestConflict"), afterMs: 0 };
      case "expired":
        return { ...problem(400, "ExpiredToken"), afterMs: 0 };
      case "slow":
        return { ...this.#carryOut(request), afterMs: fault.ms };
    }
  }

  #carryOut(request: StoreRequest): StoreAnswer {
    const { method, key, query = {}, headers = {}, body = nothing } = request;
    if (!this.#flaws.takesDamaged) {
      const sha = headers["x-amz-content-sha256"] ?? "UNSIGNED-PAYLOAD";
      const isOurs = !/^[0-9a-f]{64}$/.test(sha) || sha === hash("sha256", body, "hex");
      if (!isOurs) return problem(400, "XAmzContentSHA256Mismatch");
      const md5 = headers["content-md5"];
      if (md5 !== undefined && md5 !== hash("md5", body, "base64"))
        return problem(400, "BadDigest");
    }
    if (key === "") {
      if (method === "GET") return this.#list(query);
      if (method === "POST" && "delete" in query) return this.#removeAll(textOf(body));
      return problem(405, "MethodNotAllowed");
    }
    if (method === "GET") return this.#read(request);
    const { uploadId } = query;
    if (method === "POST" && "uploads" in query) {
      const id = `upload-${++this.#begun}`;
      this.#uploads.set(id, { key, parts: new Map() });
      return xml("InitiateMultipartUploadResult", `<UploadId>${id}</UploadId>`);
    }
    if (uploadId !== undefined) return this.#ofUpload(request, uploadId, query.partNumber);
    if (method === "PUT") {
      if (!this.#flaws.isUnfenced && "if-none-match" in headers && this.#objects.has(key))
        return problem(412, "PreconditionFailed");
      return this.#stored(this.#store(key, body));
    }
    this.#store(key, undefined);
    return { status: 204, headers: {}, body: nothing };
  }

  /** Replaces an object. */
  #store(key: string, bytes: Uint8Array | undefined, etag?: string): Stored | undefined {
    this.#changes.push({ key, isThere: this.#objects.has(key) });
    if (this.#changes.length > (this.#flaws.listLag ?? 0)) this.#changes.shift();
    if (bytes === undefined) this.#objects.delete(key);
    else this.#objects.set(key, { bytes: new Uint8Array(bytes), etag: etag ?? hash("md5", bytes) });
    return this.#objects.get(key);
  }

  #stored(stored: Stored | undefined): StoreAnswer {
    return { status: 200, headers: this.#headersOf(stored), body: nothing };
  }

  #headersOf(stored: Stored | undefined): Record<string, string> {
    const etag = stored?.etag ?? "";
    return { etag: this.#flaws.hasBareEtags ? etag : `"${etag}"` };
  }

  #read({ key, headers = {} }: StoreRequest): StoreAnswer {
    const stored = this.#objects.get(key);
    if (stored === undefined) return problem(404, "NoSuchKey");
    const { length } = stored.bytes;
    const facts = { ...this.#headersOf(stored), "content-length": String(length) };
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
    if (first === undefined) return { status: 200, headers: facts, body: stored.bytes };
    const [from, end] = [Number(first), Math.min(length, Number(last) + 1)];
    if (from >= length) {
      const refused = problem(416, "InvalidRange");
      return { ...refused, headers: { "content-range": `bytes */${length}` } };
    }
    const range = `bytes ${from}-${end - 1}/${length}`;
    const partial = { ...facts, "content-length": String(end - from), "content-range": range };
    return { status: 206, headers: partial, body: stored.bytes.subarray(from, end) };
  }

  #list(query: Readonly<Record<string, string>>): StoreAnswer {
    const listed = new Set(this.#objects.keys());
    for (const { key, isThere } of [...this.#changes].reverse()) {
      if (isThere) listed.add(key);
      else listed.delete(key);
    }
    const { prefix = "", "continuation-token": after = "", "max-keys": most = "1000" } = query;
    const keys = [...listed].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = keys.slice(0, Number(most));
    const contents = page.map(
      (key) => `<Contents><Key>${encodeURIComponent(key)}</Key></Contents>`,
    );
    const isCut = page.length < keys.length;
    const token = `<NextContinuationToken>${escaped(page.at(-1) ?? "")}</NextContinuationToken>`;
    return xml(
      "ListBucketResult",
      `<EncodingType>url</EncodingType><IsTruncated>${isCut}</IsTruncated>` +
        (isCut ? token : "") +
        contents.join(""),
    );
  }

  #removeAll(text: string): StoreAnswer {
    for (const key of valuesOf(text, "Key")) this.#store(key, undefined);
    return xml("DeleteResult", "");
  }

  #ofUpload({ method, key, body = nothing }: StoreRequest, id: string, part = ""): StoreAnswer {
    const begun = this.#uploads.get(id);
    if (begun?.key !== key) return problem(404, "NoSuchUpload");
    if (method === "PUT") {
      const stored = { bytes: new Uint8Array(body), etag: hash("md5", body) };
      begun.parts.set(Number(part), stored);
      return this.#stored(stored);
    }
    if (method === "POST") return this.#complete(id, begun, textOf(body));
    this.#uploads.delete(id);
    return { status: 204, headers: {}, body: nothing };
  }

  #complete(id: string, { key, parts }: Begun, text: string): StoreAnswer {
    const numbers = valuesOf(text, "PartNumber").map(Number);
    const etags = valuesOf(text, "ETag").map((etag) => etag.replaceAll('"', ""));
    const chosen = numbers.map((number) => parts.get(number));
    const isWrong = chosen.some((part, i) => part === undefined || part.etag !== etags[i]);
    if (isWrong || numbers.length === 0) return problem(400, "InvalidPart");
    const all = chosen.map((part) => part?.bytes ?? nothing);
    if (all.slice(0, -1).some(({ length }) => length < partBytesMin))
      return problem(400, "EntityTooSmall");
    this.#uploads.delete(id);
    this.#store(
      key,
      Buffer.concat(all),
      `${hash("md5", Buffer.from(etags.join("")))}-${all.length}`,
    );
    return xml("CompleteMultipartUploadResult", `<Key>${escaped(key)}</Key>`);
  }
}

/** Least bytes of a part but the last, as in S3. */
const partBytesMin = 0x50_0000;
const nothing = new Uint8Array(0);
const lost: StoreAnswer = { status: 0, headers: {}, body: Buffer.from("the connection was lost") };

function problem(status: number, code: string): StoreAnswer {
  return { ...xml("Error", `<Code>${code}</Code>`), status };
}

function xml(name: string, content: string): StoreAnswer {
  const body = Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>\n<${name}>${content}</${name}>`);
  return { status: 200, headers: { "content-type": "application/xml" }, body };
}

function hash(kind: "md5" | "sha256", bytes: Uint8Array, form: "hex" | "base64" = "hex"): string {
  return createHash(kind).update(bytes).digest(form);
}
