// Errors of requests to a model server: requests that it cannot or will not serve.

import { errorClass } from "./training-error.ts";

/** The request queue of a model is full. */
export class ServerBusyError extends errorClass(
  "SERVER_BUSY",
  "restore",
  (model: string, what: "samples" | "bytes", max: number, retryMs: number) => ({
    message:
      `Cannot take this request for model \`${model}\`: ${max} ${what} wait already, the limit of ` +
      "its queue; send the request again in a moment, or fewer requests at once",
    /** Estimated milliseconds until the present queue is empty. */
    retryMs,
  }),
) {}

/** The bodies of incoming requests have reached the server's limit of bytes in flight. */
export class ServerFullError extends errorClass(
  "SERVER_FULL",
  "restore",
  (bytesMax: number) =>
    `Cannot read this request: the server reads ${bytesMax} bytes of other requests, its limit; ` +
    "send the request again in a moment, or smaller requests",
) {}

/** The server shuts down and accepts no new requests. */
export class ServerDrainingError extends errorClass(
  "SERVER_DRAINING",
  "restore",
  () =>
    "The server ends and takes no new requests: " +
    "send the request to another instance, or again later",
) {}

/** The server has no model, or no version of the model, with the requested name. */
export class ModelUnknownError extends errorClass(
  "MODEL_UNKNOWN",
  "stop",
  (name: string, known: readonly string[], version?: string) => {
    const wanted = version === undefined ? `model \`${name}\`` : `version \`${version}\` of it`;
    const names = known.map((one) => `\`${one}\``).join(", ") || "none";
    const what = version === undefined ? "models" : `versions of model \`${name}\``;
    return `There is no ${wanted} here: the ${what} are ${names}`;
  },
) {}

/** The server serves the model, but has not loaded it at present. */
export class ModelUnavailableError extends errorClass(
  "MODEL_UNAVAILABLE",
  "restore",
  (name: string, reason: string) =>
    `Model \`${name}\` cannot answer now: ${reason}; the server keeps trying to load it`,
) {}

/** The deadline of a request passed before it was scored. */
export class RequestExpiredError extends errorClass(
  "REQUEST_EXPIRED",
  "restore",
  (model: string, deadlineMs: number) =>
    `The request was not scored by model \`${model}\` within its deadline of ${deadlineMs} ms: ` +
    "send it again, give it more time, or send fewer requests at once",
) {}

/** A request exceeds the server's limit of bytes, samples or names. */
export class RequestTooLargeError extends errorClass(
  "REQUEST_TOO_LARGE",
  "stop",
  (what: "bytes" | "samples" | "different names", max: number, got?: number) =>
    `Expected a request of at most ${max} ${what}, got ${got ?? "more"}: send several smaller ` +
    "requests, or raise the server's limit",
) {}

/** A request does not conform to the server's protocols. */
export class RequestUnusableError extends errorClass(
  "REQUEST_UNUSABLE",
  "stop",
  (message: string, status: number = 400) => ({
    message,
    /** The corresponding HTTP status. */
    status,
  }),
) {}

/** A request without a token that the server knows. */
export class AccessRefusedError extends errorClass(
  "ACCESS_REFUSED",
  "stop",
  () =>
    "Expected the header `Authorization: Bearer TOKEN` with a token of this server: " +
    "ask the server's operator for one",
) {}
