// The HTTP paths of the server, and their answers.
//
//   GET   /v2 · /v2/health/live · /v2/health/ready                       Open Inference Protocol
//   GET   /v2/models/N[/versions/V][/ready]
//   POST  /v2/models/N[/versions/V]/infer
//   POST  /v1/models/N[/versions/V]:predict · :rank                      plain JSON
//   GET   /v1/models/N[/versions/V]
//   GET   /metrics                                                       Prometheus

import { RequestUnusableError } from "../../../../internal.ts";
import type { Request, RequestRouter } from "../models/request-router.ts";
import type { ServingMetrics } from "../models/serving-metrics.ts";
import {
  inferAnswer,
  jsonLengthHeader,
  modelMetadata,
  readInfer,
  serverMetadata,
} from "./open-inference.ts";
import { jsonOf, type Method, methods, plainAnswer, readPlain } from "./plain-json.ts";

/** A request without its body. */
export interface HttpRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly header: (name: string) => string | undefined;
  readonly isGone: () => boolean;
}

/** The answer to a request. */
export interface HttpAnswer {
  readonly status: number;
  readonly type: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** The handler of a path. */
export interface Route {
  /** Whether no token is needed: probes have none. */
  readonly isOpen: boolean;
  /** Whether the request has a body. */
  readonly takesBody: boolean;
  answer(body: Uint8Array): HttpAnswer | Promise<HttpAnswer>;
}

interface RouteContext {
  readonly router: RequestRouter;
  readonly metrics: ServingMetrics;
}

/** Header with the key that determines the side of a split. */
export const keyHeader = "osiris-key";
/** Header with the deadline of a request, in milliseconds. */
export const timeoutHeader = "osiris-timeout-ms";

const modelPath = /^\/(v1|v2)\/models\/([^/:]+)(?:\/versions\/([^/]+?))?(?:(\/|:)([a-z]+))?$/;

/** The route of a request. @throws RequestUnusableError */
export function routeOf(context: RouteContext, request: HttpRequest): Route {
  const { router, metrics } = context;
  const [path = ""] = request.url.split("?");
  switch (path) {
    case "/v2":
      return reading(request, () => json(200, serverMetadata()));
    case "/v2/health/live":
      return { ...reading(request, () => json(200, { live: true })), isOpen: true };
    case "/v2/health/ready":
      return { ...reading(request, () => readiness(router.isReady)), isOpen: true };
    case "/v2/models":
    case "/v1/models":
      return reading(request, () => json(200, { models: router.names }));
    case "/metrics":
      return reading(request, async () => {
        return { status: 200, type: metrics.contentType, body: await metrics.text() };
      });
    default:
      return modelRoute(context, request, path);
  }
}

function modelRoute(context: RouteContext, request: HttpRequest, path: string): Route {
  const [, api, name = "", version, mark, action] = modelPath.exec(path) ?? [];
  const target = { name: decoded(name), version: version && decoded(version) };
  if (api === "v2" && mark !== ":") {
    if (action === undefined) return reading(request, () => metadata(context, target));
    if (action === "ready") return reading(request, () => modelReady(context, target));
    if (action === "infer")
      return scoring(request, (body) => infer(context, request, target, body));
  }
  if (api === "v1" && action === undefined) {
    return reading(request, () => statusOf(context, target));
  }
  const method = methods.find((one) => one === action);
  if (api === "v1" && mark === ":" && method !== undefined) {
    return scoring(request, (body) => plain(context, request, { ...target, method }, body));
  }
  const paths = "`/v2/models/NAME/infer` and `/v1/models/NAME:predict`";
  const shown = path.slice(0, 100);
  throw new RequestUnusableError(`Unknown path ${shown}: models are at ${paths}`, 404);
}

interface Target {
  readonly name: string;
  readonly version: string | undefined;
}

function reading(request: HttpRequest, answer: Route["answer"]): Route {
  expectMethod(request, ["GET", "HEAD"]);
  return { isOpen: false, takesBody: false, answer };
}

function scoring(request: HttpRequest, answer: Route["answer"]): Route {
  expectMethod(request, ["POST"]);
  return { isOpen: false, takesBody: true, answer };
}

function expectMethod({ method, url }: HttpRequest, allowed: readonly string[]): void {
  if (allowed.includes(method)) return;
  const [path = ""] = url.split("?");
  const shown = path.slice(0, 100);
  throw new RequestUnusableError(
    `Expected the method ${allowed[0]} for ${shown}, got ${method}`,
    405,
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function json(status: number, body: unknown): HttpAnswer {
  return { status, type: "application/json", body: JSON.stringify(body) };
}

function readiness(isReady: boolean): HttpAnswer {
  return json(isReady ? 200 : 503, { ready: isReady });
}

function metadata({ router }: RouteContext, { name, version }: Target): HttpAnswer {
  const model = router.model(name);
  return json(200, modelMetadata(model, model.engineOf(version)));
}

function modelReady({ router }: RouteContext, { name, version }: Target): HttpAnswer {
  const model = router.model(name);
  const isThere = version === undefined ? model.engine !== undefined : true;
  if (version !== undefined) model.engineOf(version);
  const isReady = isThere && !router.isLeaving;
  return json(isReady ? 200 : 503, { name, ready: isReady });
}

/** The status of a model, in the form of TensorFlow Serving. */
function statusOf({ router }: RouteContext, { name, version }: Target): HttpAnswer {
  const model = router.model(name);
  const versions = version === undefined ? model.versions : [model.engineOf(version).version];
  const { failure } = model;
  const listed = versions.map(({ digest, step }) => {
    return { version: digest, step, state: "AVAILABLE", status: { error_code: "OK" } };
  });
  return json(200, { model_version_status: listed, ...(failure === undefined ? {} : { failure }) });
}

async function infer(
  { router }: RouteContext,
  request: HttpRequest,
  { name, version }: Target,
  body: Uint8Array,
): Promise<HttpAnswer> {
  const engine = router.engineOf(name, version);
  const read = readInfer(body, request.header(jsonLengthHeader), engine, router.samplesMax);
  const { call, deadlineMs, key } = read;
  const settings = { call, deadlineMs, key };
  const response = await router.answer(requestFrom(request, { name, version }, settings, body));
  const { body: text, jsonBytes } = inferAnswer(response, read);
  if (jsonBytes === undefined) return { status: 200, type: "application/json", body: text };
  const headers = { [jsonLengthHeader]: String(jsonBytes) };
  return { status: 200, type: "application/octet-stream", headers, body: text };
}

async function plain(
  { router }: RouteContext,
  request: HttpRequest,
  { method, ...target }: Target & { readonly method: Method },
  body: Uint8Array,
): Promise<HttpAnswer> {
  const read = readPlain(method, jsonOf(body, router.samplesMax));
  const response = await router.answer(requestFrom(request, target, read, body));
  return json(200, plainAnswer(response));
}

function requestFrom(
  { header, isGone }: HttpRequest,
  { name, version }: Target,
  { call, deadlineMs, key }: Pick<Request, "call" | "deadlineMs" | "key">,
  body: Uint8Array,
): Request {
  const inHeader = Number(header(timeoutHeader) ?? Number.NaN);
  return {
    model: name,
    version,
    call,
    bytes: body.length,
    key: key ?? header(keyHeader),
    deadlineMs: deadlineMs ?? (inHeader > 0 ? inHeader : undefined),
    protocol: "http",
    isGone,
  };
}
