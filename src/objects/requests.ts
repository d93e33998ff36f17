// A request to an S3-compatible store and its response, as plain data: rules make requests, and the
// HTTP connection, the service thread or the store of tests carries them out.

export interface StoreRequest {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** Key in the bucket; "" means the bucket. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Most bytes of an object in the answer. @default answerBytesMax */
  readonly bytesMax?: number;
}

export interface StoreAnswer {
  /** HTTP status; 0: no answer arrived, and the request may have been carried out or not. */
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body. Without an answer, the reason as text. */
  readonly body: Uint8Array;
}

/** Most bytes of a response. Only a successful one may have an object: `bytesMax` limits it. */
export function bytesMaxOf({ bytesMax }: StoreRequest, status: number): number {
  return status === 200 || status === 206 ? (bytesMax ?? answerBytesMax) : answerBytesMax;
}

/** Most bytes of an error, or of a list of objects with the longest keys. */
export const answerBytesMax = 0x10_0000;

/** Stands for the response of a request that received none. */
export function noAnswer(reason: string): StoreAnswer {
  return { status: 0, headers: {}, body: Buffer.from(reason) };
}
