// The dashboard: a page that shows the state of a cluster, served by a process of the cluster. It
// uses the same interfaces as any client: events of runs, the job service, and inspection.
//
//   browser ──GET /, page.js, page.css──▶ page-files
//           ──GET /api/stream──▶ page-stream ◀── event-ring ◀── events of all runs
//                                            ◀── cluster-watch ◀── inspect.overview
//           ──GET, POST /api/…──▶ page-answers ──▶ job service, inspection
//
// Every request passes authorisation first (auth.ts). No computation of a run depends on the
// dashboard.

import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  addressOf,
  Client,
  checkOptions,
  closeServer,
  type Dashboard,
  type DashboardSource,
  decodeBody,
  eventsPatterns,
  listenAt,
  longAsText,
  type Network,
  packageVersion,
  parseExactly,
  RequestUnusableError,
  type RunEvent,
  recordError,
  serverOfFew,
} from "../../../internal.ts";
import { cookieName, refusalOfChange, visitorOf, visitorWith } from "./auth.ts";
import { ClusterWatch } from "./cluster-watch.ts";
import {
  type Access,
  accessOf,
  type DashboardOptions,
  type DashboardSettings,
  dashboardOptions,
  type Visitor,
} from "./dashboard-options.ts";
import { EventRing } from "./event-ring.ts";
import { PageAnswers } from "./page-answers.ts";
import type { PageAction } from "./page-api.ts";
import { pageFileNames, readPageFile } from "./page-files.ts";
import { PageStreams, streamsMax } from "./page-stream.ts";

/** Largest request body: a job. */
const bodyBytesMax = 2 ** 20;
/** Time for running answers to end when the dashboard closes. */
const drainMs = 500;

const headers: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/**
 * The page of a cluster, for `dashboard` of `Cluster.start`.
 * @throws InvalidOptionError where an option is wrong
 */
export function dashboard(options: DashboardOptions = {}): DashboardSource {
  const settings = checkOptions(dashboardOptions, { dashboard: options }).dashboard;
  return (network, tenants) => openDashboard(network, settings, tenants);
}

/**
 * Serves the dashboard of a cluster.
 * @throws InvalidOptionError, InputUnusableError if the address is not available, or the page was
 * not built
 */
export async function openDashboard(
  network: Network,
  settings: DashboardSettings,
  tenants: readonly string[],
): Promise<Dashboard> {
  const { transport, cluster, clock, faultsAllowed } = network;
  const access = accessOf(settings, { tenants, faultsAllowed });
  const files = new Map(pageFileNames.map((name) => [`/${name}`, readPageFile(name)]));
  const clientOf = (tenant: string | undefined) =>
    new Client({ transport, cluster, tenant, clock });
  const ring = new EventRing();
  const newEpoch = () => randomBytes(6).toString("hex");
  const watch = new ClusterWatch(clientOf(undefined), clock, () => streams.sendReport());
  const hello = { epoch: newEpoch(), cluster, version: packageVersion() };
  const streams: PageStreams = new PageStreams({ ring, watch, clock, hello });
  const answers = new PageAnswers({ network, ring, clientOf });
  const server = serverOfFew(
    (request, response) => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      const url = addressOf(request);
      return answer({ request, response, url, access, port, files, streams, answers });
    },
    (error, response) => sendError(response, statusOf(error), recordError(error)),
  );
  const address = await listenAt(server, settings);
  const port = Number(new URL(address).port);
  const subscriptions = eventsPatterns(cluster).map((pattern) =>
    transport.subscribe(pattern, (frame) => {
      const tokens = frame.subject.split(".");
      const tenant = tokens.length === 6 ? tokens[3] : undefined;
      ring.add(decodeBody(frame) as RunEvent, tenant, clock.date().getTime());
      streams.tellEvents();
    }),
  );
  // Events that were published without a broker have reached the job service alone.
  const status = transport.onStatus((now) => {
    if (now === "connected") streams.restart(newEpoch());
  });
  const linkWith = (token: string | undefined) =>
    token === undefined ? `${address}/` : `${address}/?token=${encodeURIComponent(token)}`;
  return {
    url: linkWith(access.token),
    tenantUrls: Object.fromEntries(
      [...access.tenantTokens].map(([tenant, token]) => [tenant, linkWith(token)]),
    ),
    get tabs() {
      return streams.count;
    },
    async close() {
      for (const subscription of [...subscriptions, status]) subscription.unsubscribe();
      watch.close();
      streams.close();
      await closeServer(server, drainMs, clock);
    },
  };
}

interface PageRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  readonly access: Access;
  readonly port: number;
  readonly files: ReadonlyMap<string, ReturnType<typeof readPageFile>>;
  readonly streams: PageStreams;
  readonly answers: PageAnswers;
}

async function answer(exchange: PageRequest): Promise<void> {
  const { request, response, url, access, port } = exchange;
  const given = url.searchParams.get("token") ?? undefined;
  if (url.pathname === "/" && visitorWith(given, access) !== undefined) {
    // Moves the token from the address bar to a cookie that scripts cannot read.
    const kept = `${cookieName(port)}=${encodeURIComponent(given ?? "")}`;
    response.setHeader("set-cookie", `${kept}; HttpOnly; SameSite=Lax; Path=/`);
    response.writeHead(303, { location: "/" }).end();
    return;
  }
  const visitor = visitorOf(request, access, port);
  if ("status" in visitor) {
    return sendError(response, visitor.status, { code: "NOT_PERMITTED", ...visitor });
  }
  if (request.method === "POST") return sendJson(response, await change(exchange, visitor));
  if (request.method !== "GET" && request.method !== "HEAD") {
    return sendError(response, 405, { code: "NOT_PERMITTED", message: "Expected GET or POST" });
  }
  if (url.pathname === "/api/stream") return stream(exchange, visitor);
  if (url.pathname.startsWith("/api/")) return sendJson(response, await look(exchange, visitor));
  sendFile(exchange);
}

function stream({ request, response, streams }: PageRequest, visitor: Visitor): void {
  if (streams.count >= streamsMax) {
    const message = `Expected at most ${streamsMax} open tabs: close some`;
    sendError(response, 503, { code: "TOO_MANY_REQUESTS", message });
    return;
  }
  const lastId = request.headers["last-event-id"];
  streams.open(response, visitor, typeof lastId === "string" ? lastId : undefined);
}

/** Answers requests that only read. */
async function look({ url, answers }: PageRequest, visitor: Visitor): Promise<unknown> {
  const [, , what, run, part] = partsOf(url);
  if (what === "runs" && run === undefined) return await answers.runs(visitor);
  if (what === "runs" && run !== undefined && part === undefined) {
    return await answers.summary(visitor, run);
  }
  if (what === "runs" && run !== undefined && part === "events") {
    return await answers.history(visitor, run);
  }
  if (what === "shards") return await answers.shards(visitor, url.searchParams);
  if (what === "tiers") return await answers.tiers(visitor);
  if (what === "actor") return await answers.actor(visitor, url.searchParams);
  throw new RequestUnusableError(
    "Expected an address of packages/dashboard/docs/dashboard.md",
    404,
  );
}

/** The segments of a path, percent-decoded. */
function partsOf({ pathname }: URL): string[] {
  try {
    return pathname.split("/").map(decodeURIComponent);
  } catch (cause) {
    throw new RequestUnusableError("Expected a path whose `%` all begin encoded bytes", 400, {
      cause,
    });
  }
}

/** Executes a request that changes something, if the action is allowed. */
async function change({ request, url, answers }: PageRequest, visitor: Visitor): Promise<unknown> {
  const refusal = refusalOfChange(request);
  if (refusal !== undefined) throw new RequestUnusableError(refusal.message, refusal.status);
  const [, , what, method = ""] = url.pathname.split("/");
  const needed: PageAction | undefined =
    what === "jobs" ? "control" : what === "faults" ? "faults" : undefined;
  if (needed === undefined)
    throw new RequestUnusableError("Expected /api/jobs or /api/faults", 404);
  if (!visitor.allow.includes(needed)) {
    const message = `This page is read-only: the cluster was started without \`--dashboard-allow ${needed}\``;
    throw new RequestUnusableError(message, 403);
  }
  const body = await bodyOf(request);
  return needed === "faults"
    ? await answers.fault(visitor, body)
    : await answers.change(visitor, method, body);
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) {
      throw new RequestUnusableError(`Expected a body of at most ${bodyBytesMax} bytes`, 413);
    }
    chunks.push(chunk);
  }
  try {
    return longAsText(parseExactly(Buffer.concat(chunks).toString("utf8")));
  } catch {
    throw new RequestUnusableError("Expected a body of JSON", 400);
  }
}

function sendFile({ request, response, url, files }: PageRequest): void {
  const file = files.get(url.pathname === "/" ? "/index.html" : url.pathname);
  if (file === undefined) {
    sendError(response, 404, { code: "NOT_FOUND", message: "There is no such page" });
    return;
  }
  response.setHeader("etag", file.etag);
  response.setHeader("cache-control", "no-cache");
  if (request.headers["if-none-match"] === file.etag) {
    response.writeHead(304).end();
    return;
  }
  response.setHeader("content-type", file.type);
  const isPacked = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
  if (isPacked) response.setHeader("content-encoding", "gzip");
  response.setHeader("vary", "accept-encoding");
  response.end(isPacked ? file.packed : file.text);
}

function sendJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { "content-type": "application/json; charset=utf-8" });
  response.end(JSON.stringify(body));
}

function sendError(
  response: ServerResponse,
  status: number,
  { code, message }: { readonly code: string; readonly message: string },
): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8" });
  response.end(JSON.stringify({ error: { code, message } }));
}

function statusOf(error: unknown): number {
  if (error instanceof RequestUnusableError) return error.status;
  const { code } = recordError(error);
  if (code === "INVALID_OPTION") return 404;
  if (code === "REQUEST_FAILED") return 503;
  return 409;
}
