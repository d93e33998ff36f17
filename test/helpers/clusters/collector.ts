// A trace collector in this process: receives OTLP over HTTP, as JSON, and stores the spans.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A span, with the fields that tests check. Times are nanoseconds since 1970. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly from: bigint;
  readonly to: bigint;
  readonly attributes: Readonly<Record<string, string | number>>;
}

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly {
    readonly key: string;
    readonly value: { readonly stringValue?: string; readonly intValue?: number };
  }[];
}

interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

export interface Collector extends AsyncDisposable {
  /** The URL for `tracing.endpoint`. */
  readonly endpoint: string;
  readonly spans: readonly CollectedSpan[];
}

export async function startCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const isTraces = request.method === "POST" && request.url === "/v1/traces";
      if (isTraces) spans.push(...spansIn(JSON.parse(Buffer.concat(chunks).toString())));
      response.writeHead(isTraces ? 200 : 404, { "content-type": "application/json" }).end("{}");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    spans,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function spansIn({ resourceSpans }: OtlpRequest): CollectedSpan[] {
  const all = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
  return all.map((span) => ({
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId,
    name: span.name,
    from: BigInt(span.startTimeUnixNano),
    to: BigInt(span.endTimeUnixNano),
    attributes: Object.fromEntries(
      span.attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? ""]),
    ),
  }));
}
