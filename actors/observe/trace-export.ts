// Traces of steps in OpenTelemetry: one trace per step, over all devices and hosts. Ids are hashes
// of run, step and device, so that each process knows the parents of its spans without
// communication.
//
//   step ─┬─ device ─┬─ ids · tiers · lookup · exchange · compute · update · allReduce · …
//         │          └─ checkpoint                  after the last step before a cut
//         ├─ device ── …                            of every rank
//         └─ read                                   of every reader that read for it
//
// The step's span has the times of the first device. Work that is done ahead begins before it. This
// module is loaded only if traces are exported.

import { createHash } from "node:crypto";
import { hostname } from "node:os";
import { type HrTime, SpanKind, SpanStatusCode, TraceFlags } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type ReadableSpan } from "@opentelemetry/sdk-trace";
import { packageVersion } from "../../src/ports/entry-file.ts";
import type { TracedActor } from "../../src/ports/launcher.ts";

/** Longest wait for a collector, also when the process ends. */
const exportMs = 2000;

/** The destination of traces. */
export interface TraceExport {
  take(traced: TracedActor): void;
  /** Sends the remaining spans, for a bounded time. */
  close(): Promise<void>;
}

/** Opens an exporter to a collector over OTLP/HTTP. Spans that it does not accept are lost. */
export function openTraceExport(endpoint: string): TraceExport {
  const url = `${endpoint.replace(/\/+$/, "")}/v1/traces`;
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: exportMs });
  const processor = new BatchSpanProcessor({ exporter, exportTimeoutMillis: exportMs });
  return {
    take(traced) {
      for (const span of spansOf(traced)) processor.onEnd(span);
    },
    close: () => processor.shutdown().catch(() => {}),
  };
}

const resource = resourceFromAttributes({
  "service.name": "osiris",
  "service.version": packageVersion(),
  "service.instance.id": `${hostname()}-${process.pid}`,
  "host.name": hostname(),
});
const instrumentationScope = { name: "osiris", version: packageVersion() };

/** The spans of one thread's work for a step; for the first device, also the span of the step. */
export function spansOf({ run, generation, step, actor, intervals }: TracedActor): ReadableSpan[] {
  const idOf = (what: string, bytes: number) => {
    const text = JSON.stringify([run, generation, step, what]);
    return createHash("sha256")
      .update(text)
      .digest("hex")
      .slice(0, 2 * bytes);
  };
  const traceId = idOf("trace", 16);
  const attributes = { "osiris.run": run, "osiris.generation": generation, "osiris.step": step };
  const spanOf = (span: {
    readonly id: string;
    readonly parent?: string | undefined;
    readonly name: string;
    readonly fromMs: number;
    readonly toMs: number;
  }): ReadableSpan => {
    const { id, parent, name, fromMs, toMs } = span;
    const contextOf = (what: string) => {
      return { traceId, spanId: idOf(what, 8), traceFlags: TraceFlags.SAMPLED };
    };
    return {
      name,
      kind: SpanKind.INTERNAL,
      spanContext: () => contextOf(id),
      ...(parent === undefined ? {} : { parentSpanContext: contextOf(parent) }),
      startTime: timeOf(fromMs),
      endTime: timeOf(toMs),
      duration: timeOf(toMs - fromMs),
      status: { code: SpanStatusCode.UNSET },
      attributes: { ...attributes, ...(id === root ? {} : { "osiris.actor": actor }) },
      links: [],
      events: [],
      ended: true,
      resource,
      instrumentationScope,
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    };
  };
  const isDevice = actor.startsWith("device:");
  const parent = isDevice ? actor : root;
  const tasks = intervals.map((one, at) => spanOf({ ...one, id: `${actor} ${at}`, parent }));
  if (!isDevice) return tasks;
  const fromMs = Math.min(...intervals.map((one) => one.fromMs));
  const toMs = Math.max(...intervals.map((one) => one.toMs));
  const device = spanOf({ id: actor, parent: root, name: "device", fromMs, toMs });
  if (actor !== "device:0") return [device, ...tasks];
  return [spanOf({ id: root, name: root, fromMs, toMs }), device, ...tasks];
}

const root = "step";

/** A time in milliseconds as seconds and nanoseconds. */
function timeOf(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - 1000 * seconds) * 1e6)];
}
