// The one way in which our servers listen to strangers: what a listener throws, at once or later,
// ends the one request or connection that it is about. Node would end the whole process for it.
//
// Invariants
//   A1. No bytes of a stranger make a listener throw: every listener of a server, and of a socket
//       that it took, is `guarded`.
//   A2. A request is answered, with a status that says what was wrong with it.

import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { RequestUnusableError } from "../../errors/errors.ts";
import { connectionsWithin } from "./open-files.ts";

/** A listener that hands what `listen` throws, or rejects with, to `refuse`; it never throws. A1 */
export function guarded<Given extends readonly unknown[]>(
  listen: (...given: Given) => unknown,
  refuse: (error: unknown, ...given: Given) => void,
): (...given: Given) => void {
  const refuseQuietly = (error: unknown, given: Given) => {
    try {
      refuse(error, ...given);
    } catch {
      // The connection is beyond help, and there is nobody to tell.
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

/** Answers a request; may throw at once or later. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

/** A listener of requests. What has begun to be answered is cut off; the rest is refused. A2 */
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

/** A page has at most a hundred streams, and some requests beside them. */
const connectionsMax = 128;
/** For the headers of a request, and so for a connection that asks for nothing. */
const headersMs = 10_000;
/** For a whole request: a job has a mebibyte. */
const requestMs = 30_000;
/** How often connections are looked at that are too slow. */
const slowCheckMs = 1000;

/**
 * A server for few clients, as a page or a cluster's figures have: its connections are bounded, so
 * that strangers take no files and no memory from the runs of the process.
 */
export function serverOfFew(...of: Parameters<typeof answering>): Server {
  const server = createServer({ connectionsCheckingInterval: slowCheckMs }, answering(...of));
  server.maxConnections = connectionsWithin(connectionsMax);
  server.headersTimeout = headersMs;
  server.requestTimeout = requestMs;
  return server;
}

/**
 * The address that a request asks for: a path, or the whole address as proxies send it.
 * @throws RequestUnusableError where it is neither
 */
export function addressOf({ url = "/" }: { readonly url?: string | undefined }): URL {
  // What begins with two slashes would be the name of a host.
  const isPath = /^\/(?![/\\])/.test(url);
  const whole = isPath ? `http://page${url}` : url;
  if ((isPath || /^https?:\/\//i.test(url)) && URL.canParse(whole)) return new URL(whole);
  const shown = url.length > 100 ? `${url.slice(0, 97)}...` : url;
  throw new RequestUnusableError(`Expected a request for a path, as \`/api/runs\`, got ${shown}`);
}
