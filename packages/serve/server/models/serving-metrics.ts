// The metrics of a model server, in Prometheus's text format. packages/serve/docs/serving.md lists
// them.

import type { Registry } from "prom-client";
import type { ServedVersion } from "../../model/served-model.ts";

/** Histogram buckets of times, in seconds: a request takes 0.3 ms to 1 s. */
const seconds = [0.0003, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const samples = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096];
const differences = [0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5, 1];

/** Records metrics. */
export interface ServingMetrics {
  readonly contentType: string;
  /** All metrics, in Prometheus's text format. */
  text(): Promise<string>;
  /** Counts an answered request; `code`: `ok`, or the code of its error. */
  answered(model: string, protocol: Protocol, code: string, ms: number): void;
  /** Counts a request that reached no model. */
  refused(code: string): void;
  batch(
    model: string,
    report: { readonly samples: number; readonly scoreMs: number; readonly waitMs: number },
  ): void;
  /** Counts rows of tables on disk that a batch found in memory (hits), or read (misses). */
  rows(model: string, counts: { readonly hits: number; readonly misses: number }): void;
  /** Sets the newest version; undefined: none is loaded. */
  version(model: string, version: ServedVersion | undefined): void;
  reloaded(model: string, result: "switched" | "failed" | "refused"): void;
  split(model: string, to: string): void;
  /** Records a request that the shadow scored; `difference`: the largest over its samples. */
  shadowed(model: string, shadow: string, difference: number): void;
  shadowFailed(model: string, shadow: string, code: string): void;
  broker(isUp: boolean): void;
}

export type Protocol = "http" | "nats" | "program";

/**
 * Opens the metrics of a server. `waiting`: the samples that wait for each model, read at each
 * scrape.
 */
export async function openMetrics(
  waiting: () => Iterable<readonly [model: string, samples: number]>,
): Promise<ServingMetrics> {
  const library = await import("prom-client"); // Lazy: loading a model does not need it.
  const registry = new library.Registry();
  library.collectDefaultMetrics({ register: registry });
  const made = createMetrics(library, registry, waiting);
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    answered(model, protocol, code, ms) {
      made.requests.inc({ model, protocol, code });
      made.latency.observe({ model, protocol }, ms / 1000);
      if (code !== "ok") made.refusals.inc({ code });
    },
    refused: (code) => made.refusals.inc({ code }),
    batch(model, report) {
      made.batchSamples.observe({ model }, report.samples);
      made.scoring.observe({ model }, report.scoreMs / 1000);
      made.waited.observe({ model }, report.waitMs / 1000);
    },
    rows(model, { hits, misses }) {
      made.hits.inc({ model }, hits);
      made.misses.inc({ model }, misses);
    },
    version(model, version) {
      made.up.set({ model }, version === undefined ? 0 : 1);
      if (version === undefined) return;
      made.step.set({ model }, version.step);
      for (const digest of made.digests.get(model) ?? []) made.info.remove({ model, digest });
      made.digests.set(model, [version.digest]);
      made.info.set({ model, digest: version.digest }, 1);
    },
    reloaded: (model, result) => made.reloads.inc({ model, result }),
    split: (model, to) => made.splits.inc({ model, to }),
    shadowed(model, shadow, difference) {
      made.shadows.inc({ model, shadow, result: "ok" });
      made.shadowDifference.observe({ model, shadow }, difference);
    },
    shadowFailed: (model, shadow, code) => made.shadows.inc({ model, shadow, result: code }),
    broker: (isUp) => made.broker.set(isUp ? 1 : 0),
  };
}

function createMetrics(
  { Counter, Gauge, Histogram }: typeof import("prom-client"),
  registry: Registry,
  waiting: () => Iterable<readonly [model: string, samples: number]>,
) {
  const registers = [registry];
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name: `osiris_serve_${name}_total`, help, registers, labelNames });
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name: `osiris_serve_${name}`, help, registers, labelNames });
  const histogram = (name: string, help: string, buckets: number[], ...labelNames: string[]) =>
    new Histogram({ name: `osiris_serve_${name}`, help, registers, labelNames, buckets });
  const queue = new Gauge({
    name: "osiris_serve_queue_samples",
    help: "Samples that wait or are scored now",
    registers,
    labelNames: ["model"],
    collect() {
      for (const [model, count] of waiting()) this.set({ model }, count);
    },
  });
  return {
    queue,
    requests: counter("requests", "Requests by their outcome", "model", "protocol", "code"),
    refusals: counter("refusals", "Requests that were not scored, by the error's code", "code"),
    latency: histogram(
      "request_seconds",
      "From the request's last byte to its answer",
      seconds,
      "model",
      "protocol",
    ),
    batchSamples: histogram("batch_samples", "Samples scored together", samples, "model"),
    scoring: histogram("batch_seconds", "Time of the engine for a batch", seconds, "model"),
    waited: histogram("queue_seconds", "Wait of a batch's first request", seconds, "model"),
    hits: counter("row_hits", "Looked-up rows of tables on disk that were in memory", "model"),
    misses: counter("row_misses", "Rows that were read from disk", "model"),
    up: gauge("model_up", "1 while a version of the model is loaded", "model"),
    step: gauge("model_step", "Training steps of the serving version", "model"),
    info: gauge("model_info", "1 for the serving version", "model", "digest"),
    reloads: counter("reloads", "Newer versions, switched to or refused", "model", "result"),
    splits: counter(
      "split_requests",
      "Requests of a split model, by the model that answered",
      "model",
      "to",
    ),
    shadows: counter("shadow_requests", "Requests for a shadow", "model", "shadow", "result"),
    shadowDifference: histogram(
      "shadow_difference",
      "Largest difference of a request's scores from the shadow's",
      differences,
      "model",
      "shadow",
    ),
    broker: gauge("broker_up", "1 while the broker is connected"),
    digests: new Map<string, string[]>(),
  };
}
