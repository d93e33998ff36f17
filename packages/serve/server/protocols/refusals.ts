// Maps an error to an HTTP status and a JSON body with its message, as in the Open Inference
// Protocol, plus its code.

import {
  InvalidOptionError,
  RequestUnusableError,
  recordError,
  ServerBusyError,
  shownName,
} from "../../../../internal.ts";

/** Most problems in a refusal: a hostile request may have one for every record. */
const problemsMax = 100;
/**
 * Most characters of a message, and of each problem, so that no answer is longer than its request.
 */
const [messageMax, problemMax] = [2000, 500];

const statuses: Readonly<Record<string, number>> = {
  INVALID_OPTION: 400,
  ID_OUT_OF_RANGE: 400,
  FRAME_CORRUPT: 400,
  ACCESS_REFUSED: 401,
  MODEL_UNKNOWN: 404,
  REQUEST_TOO_LARGE: 413,
  FRAME_TOO_LARGE: 413,
  SERVER_BUSY: 429,
  SERVER_FULL: 503,
  MODEL_UNAVAILABLE: 503,
  MODEL_CLOSED: 503,
  SERVER_DRAINING: 503,
  REQUEST_EXPIRED: 504,
};

/** An error in the form for clients. */
export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: {
    readonly error: string;
    readonly code: string;
    readonly problems?: InvalidOptionError["problems"];
  };
}

/** The refusal for `error`. */
export function refusalOf(error: unknown): Refusal {
  const { code, message: whole } = recordError(error);
  const message = whole.length > messageMax ? `${whole.slice(0, messageMax - 3)}...` : whole;
  const status = error instanceof RequestUnusableError ? error.status : (statuses[code] ?? 500);
  const problems = error instanceof InvalidOptionError ? problemsOf(error) : undefined;
  return {
    status,
    headers: headersOf(error, status),
    body: { error: message, code, ...(problems === undefined ? {} : { problems }) },
  };
}

/** The first problems, shortened. */
function problemsOf({ problems }: InvalidOptionError): InvalidOptionError["problems"] {
  return problems.slice(0, problemsMax).map(({ option, message }) => {
    return { option: shownName(option), message: message.slice(0, problemMax) };
  });
}

function headersOf(error: unknown, status: number): Record<string, string> {
  if (error instanceof ServerBusyError) {
    return { "retry-after": String(Math.max(1, Math.ceil(error.retryMs / 1000))) };
  }
  if (status === 503) return { "retry-after": "1" };
  return status === 401 ? { "www-authenticate": "Bearer" } : {};
}
