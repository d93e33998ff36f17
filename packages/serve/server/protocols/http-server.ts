// The HTTP server: reads requests within limits, calls http-routes.ts, and writes answers.
//
// Invariants
//   H1. No request is read beyond its limit of bytes or of time.
//   H2. Every complete request gets an answer; the status of a refusal names the fault.
//   H3. Shutdown has two phases. Leaving: the server is not ready, still answers, and closes each
//       connection with its answer. Draining: it accepts no connection, and answers the rest.
//   H4. Incomplete bodies share a limit of bytes, and an answer that is not read is cut off.

import { readFileSync } from "node:fs";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import { Socket } from "node:net";
import {
  AccessRefusedError,
  answering,
  bearerOf,
  type Clock,
  closeServer,
  connectionsWithin,
  guarded,
  InputUnusableError,
  isForLoopback,
  isLoopback,
  isSameToken,
  type Log,
  listenAt,
  RequestTooLargeError,
  RequestUnusableError,
  recordError,
  ServerFullError,
} from "../../../../internal.ts";
import type { RequestRouter } from "../models/request-router.ts";
import type { ServerSpec } from "../models/server-options.ts";
import type { ServingMetrics } from "../models/serving-metrics.ts";
import { type HttpAnswer, type HttpRequest, type Route, routeOf } from "./http-routes.ts";
import { refusalOf } from "./refusals.ts";
import { SlowReaders } from "./slow-readers.ts";

export interface HttpServerInput {
  readonly spec: ServerSpec;
  readonly router: RequestRouter;
  readonly metrics: ServingMetrics;
  readonly log: Log;
  readonly clock: Clock;
}

/** A server that listens. */
export interface HttpServer {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  /** Leaves; resolves after `leaveMs`, or once no connection is open. H3 */
  leave(): Promise<void>;
  /** Drains; resolves once all connections have ended, or were cut after `drainMs`. H3 */
  drain(): Promise<void>;
}

/** Largest headers of a request. */
const headerBytesMax = 16 * 1024;
const headersMax = 100;
/** How often connections are checked against the time limits. */
const slowCheckMs = 500;
/** Longest idle time of a connection between requests. */
const keepAliveMs = 60_000;

/** Starts to listen. @throws InputUnusableError if the address or the certificate cannot be used */
export async function listenHttp(input: HttpServerInput): Promise<HttpServer> {
  const { spec, log, clock } = input;
  const fail = (error: unknown) =>
    log.write("error", "A request could not be answered", { error: recordError(error).message });
  const { connections: most, requestMs: stalledMs } = spec;
  const slow = new SlowReaders({ stalledMs, checkMs: slowCheckMs, clock });
  const handling: Handling = { ...input, slow, reading: { bytes: 0 }, answers: new WeakMap() };
  const handler = answering(
    (request, response) => handle(handling, request, response),
    (error, response) => {
      response.destroy();
      fail(error);
    },
  );
  const server = serverFor(spec, handler);
  server.requestTimeout = spec.requestMs;
  server.headersTimeout = spec.requestMs;
  server.keepAliveTimeout = keepAliveMs;
  server.maxHeadersCount = headersMax;
  server.maxConnections = connectionsWithin(most);
  const refused = new WeakSet<Socket>();
  const refuse = (error: { readonly code?: string }, socket: Socket) => {
    if (refused.has(socket)) return;
    refused.add(socket);
    const answer = handling.answers.get(socket);
    const isPending = answer?.req.complete === true && !answer.writableFinished;
    if (!isPending || answer.destroyed) return refuseConnection(error, socket, clock);
    // Bytes behind a complete request are refused after its answer. H2
    answer.once("close", () => refuseConnection(error, socket, clock));
  };
  server.on("clientError", guarded(refuse, cutOff));
  // H2: a caller may half-close its connection after sending its request.
  Object.assign(server, { httpAllowHalfOpen: true });
  const url = await listenAt(server, spec);
  return {
    url: spec.tls === undefined ? url : url.replace(/^http:/, "https:"),
    leave: () => left(server, spec.leaveMs, clock),
    async drain() {
      await closeServer(server, spec.drainMs, clock);
      slow.close();
    },
  };
}

/** How often the number of open connections is checked. */
const leaveCheckMs = 50;

/** Resolves once no connection is open, or after `ms`. */
async function left(server: Server, ms: number, clock: Clock): Promise<void> {
  const untilMs = clock.now() + ms;
  const open = () => {
    return new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
  };
  while (clock.now() < untilMs && (await open()) > 0) {
    await new Promise<void>((resolve) => clock.after(leaveCheckMs, resolve));
  }
}

/** The context of request handling. */
interface Handling extends HttpServerInput {
  readonly slow: SlowReaders;
  /** Bytes of incomplete bodies. H4 */
  readonly reading: { bytes: number };
  /** The newest response of each connection. */
  readonly answers: WeakMap<Socket, ServerResponse>;
}

function serverFor({ tls }: ServerSpec, handler: RequestListener): Server {
  const options = {
    maxHeaderSize: headerBytesMax,
    connectionsCheckingInterval: slowCheckMs,
    keepAlive: true,
  };
  if (tls === undefined) return createServer(options, handler);
  const [cert, key] = [readPem(tls.cert), readPem(tls.key)];
  try {
    return createTlsServer({ ...options, cert, key }, handler);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `Cannot use the certificate ${tls.cert} with the key ${tls.key}: ${reason}`;
    throw new InputUnusableError(tls.cert, message, { cause });
  }
}

function readPem(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${reason}`, { cause });
  }
}

/** Answers a request, or refuses it. H2 */
async function handle(
  handling: Handling,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { headers, method = "", url = "" } = incoming;
  handling.answers.set(incoming.socket, response);
  const request: HttpRequest = {
    method,
    url,
    header: (name) => {
      const value = headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    isGone: () => response.destroyed,
  };
  let answer: HttpAnswer;
  try {
    answer = await answerTo(handling, request, incoming);
  } catch (error) {
    const { status, headers, body } = refusalOf(error);
    if (status === 500) {
      handling.log.write("error", "A request failed", { error: recordError(error).message });
    }
    if (refusedBefore.has(body.code)) handling.metrics.refused(body.code);
    answer = { status, type: "application/json", headers, body: JSON.stringify(body) };
  }
  write(handling, incoming, response, answer);
}

/** Codes of refusals before a request reaches the router, which counts its own refusals. */
const refusedBefore = new Set([
  "SERVER_FULL",
  "REQUEST_UNUSABLE",
  "ACCESS_REFUSED",
  "REQUEST_TOO_LARGE",
]);

async function answerTo(
  handling: Handling,
  request: HttpRequest,
  incoming: IncomingMessage,
): Promise<HttpAnswer> {
  const { spec } = handling;
  const route: Route = routeOf(handling, request);
  if (!route.isOpen) checkCaller(request, spec);
  if (!route.takesBody) return route.answer(new Uint8Array());
  checkHeaders(request, spec.requestBytes);
  return route.answer(await bodyOf(incoming, handling));
}

/**
 * Checks the token, or without tokens the host. @throws AccessRefusedError, RequestUnusableError
 */
function checkCaller({ header }: HttpRequest, { host, tokens }: ServerSpec): void {
  const headers = { host: header("host"), authorization: header("authorization") };
  if (tokens.length > 0) {
    const given = bearerOf({ headers }) ?? "";
    // Compares with all tokens, so that the time does not leak which one matches.
    const same = tokens.map((one) => isSameToken(given, one));
    if (!same.includes(true)) throw new AccessRefusedError();
    return;
  }
  if (!isLoopback(host) || isForLoopback({ headers })) return;
  const message =
    "Expected the header `Host` to name this machine: pages of other sites may send no requests";
  throw new RequestUnusableError(message, 403);
}

const types = ["application/json", "application/octet-stream"];

/**
 * Checks the type, encoding and length of a body. @throws RequestUnusableError,
 * RequestTooLargeError
 */
function checkHeaders({ header }: HttpRequest, bytesMax: number): void {
  const [type = ""] = (header("content-type") ?? "").split(";");
  const named = type.trim().toLowerCase();
  // `curl -d` declares an HTML form but sends JSON.
  if (named !== "" && named !== "application/x-www-form-urlencoded" && !types.includes(named)) {
    const shown = named.slice(0, 100);
    const message = `Expected the content type ${types.join(" or ")}, got ${shown}`;
    throw new RequestUnusableError(message, 415);
  }
  const encoding = header("content-encoding") ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    const shown = encoding.slice(0, 100);
    throw new RequestUnusableError(`Expected an uncompressed body, got the encoding ${shown}`, 415);
  }
  const bytes = Number(header("content-length") ?? 0);
  if (bytes > bytesMax) throw new RequestTooLargeError("bytes", bytesMax, bytes);
}

/**
 * Reads the whole body. H1, H4 @throws RequestTooLargeError, RequestUnusableError, ServerFullError
 */
async function bodyOf(incoming: IncomingMessage, { spec, reading }: Handling): Promise<Uint8Array> {
  const { requestBytes: bytesMax, readingBytes } = spec;
  // Node first parses all bytes that came with the head: a small body is whole then, and one read
  // is cheaper than the events of a stream.
  await undefined;
  if (incoming.complete) {
    const whole: Buffer = incoming.read() ?? Buffer.alloc(0);
    if (whole.length > bytesMax) throw new RequestTooLargeError("bytes", bytesMax);
    return whole;
  }
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let bytes = 0;
    let isEnded = false;
    const refuse = (error: Error) => {
      incoming.pause();
      reading.bytes -= bytes;
      [chunks, bytes, isEnded] = [[], 0, true];
      reject(error);
    };
    incoming.on("data", (chunk: Buffer) => {
      if (isEnded) return;
      bytes += chunk.length;
      reading.bytes += chunk.length;
      if (bytes > bytesMax) refuse(new RequestTooLargeError("bytes", bytesMax));
      else if (reading.bytes > readingBytes) refuse(new ServerFullError(readingBytes));
      else chunks.push(chunk);
    });
    incoming.on("end", () => {
      if (isEnded) return;
      isEnded = true;
      reading.bytes -= bytes;
      const [only] = chunks;
      resolve(only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks));
    });
    const broken = () => {
      // The end of a complete request changes nothing.
      if (isEnded) return;
      refuse(
        new RequestUnusableError("The connection closed before the end of the request's body"),
      );
    };
    incoming.on("error", broken);
    incoming.on("close", broken);
    if (incoming.destroyed) broken();
  });
}

function write(
  { router, slow }: Handling,
  incoming: IncomingMessage,
  response: ServerResponse,
  { status, type, headers, body }: HttpAnswer,
): void {
  if (response.destroyed) return;
  const bytes = typeof body === "string" ? Buffer.byteLength(body) : body.length;
  // The rest of a refused body is not read: the connection ends. H1
  const isLast = router.isLeaving || !incoming.complete;
  response.writeHead(status, {
    "content-type": type,
    "content-length": bytes,
    ...headers,
    ...(isLast ? { connection: "close" } : {}),
  });
  response.end(body);
  if (response.socket !== null) slow.watch(response.socket);
}

/** Time that a refused client has to read the refusal and to close its connection. */
const lingerMs = 500;

/** Refuses a connection that does not speak HTTP, or is too slow, and closes it. H1 */
function refuseConnection(error: { readonly code?: string }, socket: Socket, clock: Clock): void {
  // A client that never closes its half would keep the connection open.
  socket.once(
    "close",
    clock.after(lingerMs, () => socket.destroy()),
  );
  if (!socket.writable) return;
  const [status, reason] = faults[error.code ?? ""] ?? ["400 Bad Request", "it is not HTTP/1.1"];
  const message = `Cannot read the request: ${reason}`;
  const body = JSON.stringify({ error: message, code: "REQUEST_UNUSABLE" });
  const head = `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\nconnection: close`;
  socket.end(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
}

function cutOff(_error: unknown, ...given: readonly unknown[]): void {
  const socket = given.at(-1);
  if (socket instanceof Socket) socket.destroy();
}

const faults: Readonly<Record<string, readonly [status: string, reason: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["408 Request Timeout", "it arrived too slowly"],
  HPE_HEADER_OVERFLOW: ["431 Request Header Fields Too Large", "its headers are too large"],
};
