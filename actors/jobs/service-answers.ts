// Replies of a service: every request gets one. A refusal gives its reason in the body and in the
// error headers of NATS services; a reply that is too large for a frame becomes a refusal.

import {
  type ErrorRecord,
  InvalidOptionError,
  PathForbiddenError,
  recordError,
} from "../../src/errors/errors.ts";
import { contentTypeOf, encodeBody } from "../../src/wire/messages/body.ts";
import type { Frame, Transport } from "../../src/wire/messages/transport.ts";

export interface Answer {
  readonly body: unknown;
  /** Why the request was refused; left out: it was not. */
  readonly refusal?: ErrorRecord;
}

/** Most problems in a refusal: a hostile request may have one for every byte. */
const problemsMax = 100;

/** The answer to a request that cannot be served. */
export function refusalAnswer(error: unknown): Answer {
  const problems = error instanceof InvalidOptionError ? error.problems : [];
  const named = problems.slice(0, problemsMax);
  const shown =
    named.length === problems.length ? error : InvalidOptionError.ofAll(named, { cause: error });
  const refusal = recordError(shown);
  const { code, message } = refusal;
  const wrong =
    shown instanceof InvalidOptionError || shown instanceof PathForbiddenError
      ? { option: shown.option, problems: shown.problems }
      : undefined;
  return { body: { error: { code, message, ...wrong } }, refusal };
}

/** Publishes a reply on the request's reply subject, in the encoding of the request. */
export function publishAnswer(
  transport: Transport,
  request: Frame & { readonly reply: string },
  answer: Answer,
): void {
  try {
    const { payload, headers } = encodeBody(answer.body, contentTypeOf(request));
    const all = { ...headers, ...errorHeaders(answer) };
    transport.publish(request.reply, payload, { headers: all });
  } catch (error) {
    const { payload, headers } = encodeBody(refusalAnswer(error).body, "application/json");
    transport.publish(request.reply, payload, { headers });
  }
}

/** The error headers of NATS services: a single-line message, and an HTTP code. */
function errorHeaders({ refusal }: Answer): Record<string, string> {
  if (refusal === undefined) return {};
  return {
    "Nats-Service-Error": refusal.message.replace(/[^\x20-\x7e]+/g, " ").slice(0, 512),
    "Nats-Service-Error-Code": httpCodes[refusal.code] ?? "500",
  };
}

const httpCodes: Readonly<Record<string, string>> = {
  INVALID_OPTION: "400",
  FRAME_CORRUPT: "400",
  PATH_FORBIDDEN: "403",
  RUN_STATE: "409",
  KEY_TAKEN: "409",
  JOB_TOO_LARGE: "413",
  QUOTA_EXCEEDED: "429",
  TOO_MANY_REQUESTS: "429",
  REQUEST_UNUSABLE: "400",
  ID_OUT_OF_RANGE: "400",
  MODEL_UNKNOWN: "404",
  REQUEST_TOO_LARGE: "413",
  FRAME_TOO_LARGE: "413",
  SERVER_BUSY: "429",
  MODEL_UNAVAILABLE: "503",
  SERVER_DRAINING: "503",
  REQUEST_EXPIRED: "504",
};
