// A web server of files for a test, which serves ranges and injects faults on request.

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ExecutionContext } from "ava";

/**
 * Faults of a response: a transient or lasting refusal, a cut connection, fewer bytes than
 * announced, other bytes, no response, the whole file, or a compressed part.
 */
export type WebFault =
  | "none"
  | "503"
  | "404"
  | "cut"
  | "short"
  | "elsewhere"
  | "slow"
  | "whole"
  | "packed";

/** A server, and the means to fill it. */
export interface WebServer {
  /** Without a `/` at its end. */
  readonly origin: string;
  /** Faults of the next responses, in order; then `fault`. */
  readonly faults: WebFault[];
  /** The fault of all later responses. */
  fault: WebFault;
  /** Requested ranges, as `first-last`. */
  readonly ranges: string[];
  /** Headers of the last request. */
  headers: IncomingMessage["headers"];
  /** Unanswered requests whose client still waits. */
  waiting: number;
  /** Connections that were opened. */
  readonly connections: number;
  /** Adds or replaces a file. Returns its address. */
  put(name: string, bytes: Uint8Array): string;
}

/** Starts a server without files; it ends with the test. */
export async function startWebServer(t: ExecutionContext): Promise<WebServer> {
  const files = new Map<string, Uint8Array>();
  let connections = 0;
  const server = createServer((request, response) => {
    web.headers = request.headers;
    const { pathname } = new URL(request.url ?? "", web.origin);
    const file = files.get(pathname);
    const fault = web.faults.shift() ?? web.fault;
    web.ranges.push((request.headers.range ?? "").replace("bytes=", ""));
    if (fault === "slow") {
      web.waiting++;
      response.on("close", () => web.waiting--);
    } else if (file === undefined || fault === "404") response.writeHead(404).end();
    else answer(request, response, file, fault);
  });
  server.on("connection", () => connections++);
  await new Promise<void>((resume) => server.listen(0, "127.0.0.1", resume));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const web: WebServer = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...{ faults: [], fault: "none", ranges: [], headers: {}, waiting: 0 },
    get connections() {
      return connections;
    },
    put(name, bytes) {
      files.set(`/${name}`, bytes);
      return `${web.origin}/${name}`;
    },
  };
  return web;
}

function answer(
  { headers }: IncomingMessage,
  response: ServerResponse,
  file: Uint8Array,
  fault: WebFault,
): void {
  const etag = `"${createHash("sha256").update(file).digest("hex").slice(0, 16)}"`;
  if (fault === "503") return void response.writeHead(503, { "retry-after": "0" }).end();
  if (fault === "whole") {
    return void response.writeHead(200, { etag, "content-length": file.length }).end(file);
  }
  if (headers["if-match"] !== undefined && headers["if-match"] !== etag) {
    return void response.writeHead(412).end();
  }
  const [, first = "0", last = "0"] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
  const end = Math.min(Number(last) + 1, file.length);
  if (Number(first) >= file.length) {
    return void response.writeHead(416, { etag, "content-range": `bytes */${file.length}` }).end();
  }
  const own = file.subarray(Number(first), end);
  const begin = fault === "elsewhere" ? Number(first) + 1 : first;
  response.writeHead(206, {
    ...{ etag, "content-range": `bytes ${begin}-${end - 1}/${file.length}` },
    ...(fault === "packed" ? { "content-encoding": "gzip" } : {}),
    ...(fault === "cut" ? { "content-length": own.length } : {}),
  });
  if (fault === "cut") {
    return void response.write(own.subarray(0, own.length / 2), () => response.destroy());
  }
  response.end(fault === "short" ? own.subarray(0, own.length - 1) : own);
}
