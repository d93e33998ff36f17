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
  /** Memory for the body of the answer, if it may be larger than `answerBytesMax`. */
  readonly into?: Uint8Array;
}

export interface StoreAnswer {
  /** HTTP status; 0: no answer arrived, and the request may have been carried out or not. */
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body, in `into` if the request has it. Without an answer, the reason as text. */
  readonly body: Uint8Array;
}

/** The memory for the body of an answer. An error need not fit where a part of an object fits. */
export function memoryFor({ into }: StoreRequest, status: number): Uint8Array | undefined {
  return status === 200 || status === 206 ? into : undefined;
}

/** Most bytes of an answer without memory of its own: a page of a list with the longest keys. */
export const answerBytesMax = 0x10_0000;

/** An answer for a request that got none. */
export function noAnswer(reason: string): StoreAnswer {
  return { status: 0, headers: {}, body: Buffer.from(reason) };
}
