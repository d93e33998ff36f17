// Guards for listeners on untrusted connections: an exception in a listener ends only the request
// or connection in question. Node would end the whole process.
//
// Invariants
//   A1. No bytes of a client make a listener throw: each listener of a server, and of a socket that
//       it accepted, is `guarded`.
//   A2. Each request is answered, with a status that says what was wrong with it.

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { RequestUnusableError } from "../../errors/errors.ts";
import { connectionsWithin } from "./open-files.ts";

/**
 * Wraps a listener: passes errors that `listen` throws or rejects with to `refuse`, and never
 * throws. A1
 */
export function guarded<Given extends readonly unknown[]>(
  listen: (...given: Given) => unknown,
  refuse: (error: unknown, ...given: Given) => void,
): (...given: Given) => void {
  const refuseQuietly = (error: unknown, given: Given) => {
    try {
      refuse(error, ...given);
    } catch {
      // The connection cannot be answered, and the error has no receiver.
    }
  };
  return (...given) => {
    try {
      const listened = listen(...given);
      if (listened instanceof Promise) {
        listened.catch((error: unknown) => refuseQuietly(error, given));
      }
    } catch (error) {
      refuseQuietly(error, given);
    }
  };
}

/** Answers a request; may throw or reject. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

/**
 * A guarded request listener. On an error, cuts off a response that has begun, and refuses
 * otherwise. A2
 */
export function answering(
  answer: Answer,
  refuse: (error: unknown, response: ServerResponse) => void,
): RequestListener {
  return guarded(answer, (error, _request, response) => {
    if (response.headersSent) response.destroy();
    else {
      try {
        refuse(error, response);
      } catch {
        response.destroy();
      }
    }
  });
}

/** A page opens at most a hundred streams, plus some requests. */
const connectionsMax = 128;
/** Time limit for the headers of a request, and thus for an idle connection. */
const headersMs = 10_000;
/** Time limit for a whole request; the largest is a job, of 1 MiB. */
const requestMs = 30_000;
/** How often connections are checked against the time limits. */
const slowCheckMs = 1000;

/**
 * Creates a server for few clients, e.g. the dashboard or metrics. Its connections are bounded, so
 * that clients cannot exhaust the files and memory that the runs of the process need.
 */
export function serverOfFew(...of: Parameters<typeof answering>): Server {
  const server = createServer({ connectionsCheckingInterval: slowCheckMs }, answering(...of));
  server.maxConnections = connectionsWithin(connectionsMax);
  server.headersTimeout = headersMs;
  server.requestTimeout = requestMs;
  return server;
}

/**
 * The URL of a request, which names a path or, through a proxy, the whole address.
 * @throws RequestUnusableError if it is neither
 */
export function addressOf({ url = "/" }: { readonly url?: string | undefined }): URL {
  // A URL that begins with two slashes would name a host.
  const isPath = /^\/(?![/\\])/.test(url);
  const whole = isPath ? `http://page${url}` : url;
  if ((isPath || /^https?:\/\//i.test(url)) && URL.canParse(whole)) return new URL(whole);
  const shown = url.length > 100 ? `${url.slice(0, 97)}...` : url;
  throw new RequestUnusableError(`Expected a request for a path, as \`/api/runs\`, got ${shown}`);
}
