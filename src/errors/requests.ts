// Errors of requests to a server of models: what it cannot or will not answer, and why.

import { TrainingError } from "./training-error.ts";

/** More requests wait for a model than its queue takes. */
export class ServerBusyError extends TrainingError {
  readonly code = "SERVER_BUSY";
  readonly recovery = "restore";
  /** Milliseconds after which the queue of now will be empty, as far as anybody can tell. */
  readonly retryMs: number;

  constructor(model: string, what: "samples" | "bytes", max: number, retryMs: number) {
    super(
      `Cannot take this request for model \`${model}\`: ${max} ${what} wait already, as many as ` +
        "its queue takes; ask again in a moment, or send fewer requests at once",
    );
    this.retryMs = retryMs;
  }
}

/** Bodies of requests that are coming in have as many bytes together as a server takes. */
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

/** A server that ends takes no new requests. */
export class ServerDrainingError extends TrainingError {
  readonly code = "SERVER_DRAINING";
  readonly recovery = "restore";

  constructor() {
    super("The server ends and takes no new requests: ask another instance, or ask again later");
  }
}

/** There is no model, or no version of it, of that name. */
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

/** A model is served here, and is not loaded at the moment. */
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

/** A request has more bytes or samples than the server takes. */
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

/** A request is no request of the server's protocols. */
export class RequestUnusableError extends TrainingError {
  readonly code = "REQUEST_UNUSABLE";
  readonly recovery = "stop";
  /** The status of HTTP that says the same. */
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
