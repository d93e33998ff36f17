// Errors of requests to a model server: requests that it cannot or will not serve.

import { TrainingError } from "./training-error.ts";

/** The request queue of a model is full. */
export class ServerBusyError extends TrainingError {
  readonly code = "SERVER_BUSY";
  readonly recovery = "restore";
  /** Estimated milliseconds until the present queue is empty. */
  readonly retryMs: number;

  constructor(model: string, what: "samples" | "bytes", max: number, retryMs: number) {
    super(
      `Cannot take this request for model \`${model}\`: ${max} ${what} wait already, as many as ` +
        "its queue takes; ask again in a moment, or send fewer requests at once",
    );
    this.retryMs = retryMs;
  }
}

/** The bodies of incoming requests have reached the server's limit of bytes in flight. */
export class ServerFullError extends TrainingError {
  readonly code = "SERVER_FULL";
  readonly recovery = "restore";

  constructor(bytesMax: number) {
    super(
      `Cannot read this request: others that are coming in have ${bytesMax} bytes together, as many ` +
        "as the server reads at once; ask again in a moment, or send smaller requests",
    );
  }
}

/** The server shuts down and accepts no new requests. */
export class ServerDrainingError extends TrainingError {
  readonly code = "SERVER_DRAINING";
  readonly recovery = "restore";

  constructor() {
    super("The server ends and takes no new requests: ask another instance, or ask again later");
  }
}

/** The server has no model, or no version of the model, with the requested name. */
export class ModelUnknownError extends TrainingError {
  readonly code = "MODEL_UNKNOWN";
  readonly recovery = "stop";

  constructor(name: string, known: readonly string[], version?: string) {
    const wanted = version === undefined ? `model \`${name}\`` : `version \`${version}\` of it`;
    const there = known.length === 0 ? "none" : known.map((one) => `\`${one}\``).join(", ");
    const what = version === undefined ? "models" : `versions of model \`${name}\``;
    super(`There is no ${wanted} here: the ${what} are ${there}`);
  }
}

/** The server serves the model, but has not loaded it at present. */
export class ModelUnavailableError extends TrainingError {
  readonly code = "MODEL_UNAVAILABLE";
  readonly recovery = "restore";

  constructor(name: string, reason: string) {
    super(`Model \`${name}\` cannot answer now: ${reason}; it is loaded again by itself`);
  }
}

/** The deadline of a request passed before it was scored. */
export class RequestExpiredError extends TrainingError {
  readonly code = "REQUEST_EXPIRED";
  readonly recovery = "restore";

  constructor(model: string, deadlineMs: number) {
    super(
      `The request was not scored by model \`${model}\` within its deadline of ` +
        `${deadlineMs} ms: ask again, give it more time, or send fewer requests at once`,
    );
  }
}

/** A request exceeds the server's limit of bytes, samples or names. */
export class RequestTooLargeError extends TrainingError {
  readonly code = "REQUEST_TOO_LARGE";
  readonly recovery = "stop";

  constructor(what: "bytes" | "samples" | "different names", max: number, got?: number) {
    const given = got === undefined ? "got more" : `got ${got}`;
    super(
      `Expected a request of at most ${max} ${what}, ${given}: send several smaller requests, ` +
        "or raise the server's limit",
    );
  }
}

/** A request does not conform to the server's protocols. */
export class RequestUnusableError extends TrainingError {
  readonly code = "REQUEST_UNUSABLE";
  readonly recovery = "stop";
  /** The corresponding HTTP status. */
  readonly status: number;

  constructor(message: string, status = 400, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** A request without a token that the server knows. */
export class AccessRefusedError extends TrainingError {
  readonly code = "ACCESS_REFUSED";
  readonly recovery = "stop";

  constructor() {
    super(
      "Expected the header `Authorization: Bearer TOKEN` with a token of this server: " +
        "ask whoever runs it for one",
    );
  }
}
