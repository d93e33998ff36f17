// A request to an S3-compatible store and its answer, as plain data: the rules make them, and the
// HTTP connection, the service thread and the store of tests answer them.

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

/** Most bytes of an answer: an error need not fit where a part of an object fits. */
export function bytesMaxOf({ bytesMax }: StoreRequest, status: number): number {
  return status === 200 || status === 206 ? (bytesMax ?? answerBytesMax) : answerBytesMax;
}

/** Most bytes of an error, or of a list of objects with the longest keys. */
export const answerBytesMax = 0x10_0000;

/** An answer for a request that got none. */
export function noAnswer(reason: string): StoreAnswer {
  return { status: 0, headers: {}, body: Buffer.from(reason) };
}
