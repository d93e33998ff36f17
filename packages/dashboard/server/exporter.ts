// Exports metrics of a cluster in Prometheus's text format, derived from the events that its runs
// publish. The exporter only listens, so it adds no load to the cluster. Counters miss events that
// are lost on the way.
//
// docs/operations.md lists the metrics.

import type { Registry } from "prom-client";
import {
  type ConnectionOptions,
  decodeBody,
  eventsPatterns,
  type RunEvent,
  type RunResult,
  realClock,
  transportTo,
} from "../../../internal.ts";

/** A cluster's metrics. Close it, or declare it with `await using`. */
export interface Exporter extends AsyncDisposable {
  /** All metrics, in Prometheus's text format. */
  text(): Promise<string>;
  /** The content type of `text`, for an answer by HTTP. */
  readonly contentType: string;
}

/** The final statuses of a run. */
const ended = ["finished", "stopped-early", "cancelled", "failed"];

/** Finished runs that keep their metrics. */
const finishedMax = 100;

/** Opens an exporter, which listens to all runs of a cluster from now on. @throws as `connect` */
export async function openExporter(given: ConnectionOptions): Promise<Exporter> {
  const library = await import("prom-client"); // Loaded lazily: no other client of a cluster needs it.
  const { transport, cluster } = await transportTo(given, "osiris-metrics");
  const registry = new library.Registry();
  library.collectDefaultMetrics({ register: registry });
  const figures = createFigures(library, registry);
  for (const status of ended) figures.ended.inc({ status }, 0);
  figures.broker.set(1);
  transport.onStatus((status) => figures.broker.set(status === "connected" ? 1 : 0));
  const known = new Set<string>();
  const over: string[] = [];
  for (const pattern of eventsPatterns(cluster)) {
    transport.subscribe(pattern, (frame) => {
      const event = decodeBody(frame) as RunEvent;
      if (!known.has(event.run)) begin(figures, event.run);
      known.add(event.run);
      note(figures, event);
      figures.lastEvent.set({ run: event.run }, realClock.date().getTime() / 1000);
      if (event.type !== "run.finished" && event.type !== "run.failed") return;
      over.push(event.run);
      const old = over.splice(0, Math.max(0, over.length - finishedMax));
      for (const run of old) {
        known.delete(run);
        void forget(figures, run);
      }
    });
  }
  await transport.flush();
  return {
    text: () => registry.metrics(),
    contentType: registry.contentType,
    [Symbol.asyncDispose]: () => transport.close(),
  };
}

/** Registers the metrics. */
function createFigures(
  { Counter, Gauge, Histogram }: typeof import("prom-client"),
  registry: Registry,
) {
  const registers = [registry];
  const gauge = (name: string, help: string, ...labels: string[]) =>
    new Gauge({ name: `osiris_${name}`, help, registers, labelNames: ["run", ...labels] });
  const counter = (name: string, help: string, ...labels: string[]) =>
    new Counter({ name: `osiris_${name}_total`, help, registers, labelNames: ["run", ...labels] });
  return {
    up: gauge("run_up", "1 while the run has devices, 0 while it is paused and after its end"),
    step: gauge("run_step", "Steps done"),
    steps: gauge("run_steps", "Steps of the whole run"),
    loss: gauge("run_loss", "Mean loss of the last reported step"),
    speed: gauge("run_samples_per_second", "Samples a second, of the last ten seconds"),
    generation: gauge(
      "run_generation",
      "Number of the generation: 1 until a failure or planned change",
    ),
    devices: gauge("run_devices", "Devices that train it"),
    stepSeconds: gauge("step_seconds", "Mean time of a step"),
    batches: gauge("batches_ready", "Batches that were ready when a step began"),
    reading: gauge("read_seconds", "Mean time in which a reader reads a batch"),
    dedupeFactor: gauge("dedupe_factor", "Ids of deduplicated lists for each id that is sent"),
    overRead: gauge("over_read", "Bytes read of the file per byte of the trained samples"),
    diskWait: gauge(
      "disk_wait_seconds",
      "Mean time per batch in which its reader waits for the disk",
    ),
    share: gauge("step_share", "Share of the time of a step that one part of it takes", "part"),
    exchange: gauge(
      "exchange_share",
      "Share of a step in which devices wait for the exchange (exposed), in which bytes are in " +
        "flight then (in_flight), and while they compute (hidden)",
      "time",
    ),
    hidden: gauge("exchange_hidden_share", "Hidden share of the exchange by channel", "channel"),
    tier: gauge("tier_share", "Share of cached rows that came from a tier", "tier"),
    metric: gauge("evaluation", "The last evaluation on held-out samples", "metric"),
    repaired: gauge("repaired_ids", "Ids outside a table's rows, clamped or hashed", "table"),
    stale: gauge("stale_rows", "Rows that steps read with an update pending", "table"),
    rowsUsed: gauge("dynamic_rows", "Rows of a table that are assigned to dynamic ids", "table"),
    tierState: gauge(
      "tier_ok",
      "1 while the device's tier serves rows; 0 while its disk is full or slow",
      "device",
    ),
    links: gauge(
      "links",
      "Links between the run's hosts: direct ones, and those over the broker",
      "way",
    ),
    straggler: gauge("straggler_factor", "Last reported factor of a straggling device", "device"),
    workers: gauge("workers", "Number of live preprocessing workers"),
    workersWanted: gauge("workers_wanted", "Number of preprocessing workers that the run needs"),
    workersStalled: gauge("workers_stalled", "Share of the time that readers waited for workers"),
    readerLimit: gauge(
      "reader_limit_samples_per_second",
      "Most samples a second that the run's readers may serve; 0: there is no limit",
    ),
    drains: counter("reader_drains", "Reader threads that were replaced on request", "reader"),
    incidents: counter("incidents", "Failures, also those that ended the run", "role", "code"),
    alerts: counter("alerts", "Alerts of the run", "code"),
    scalings: counter(
      "scalings",
      "Planned changes of the run's devices, or of the placement of its shards",
    ),
    checkpoints: counter("checkpoints", "Checkpoints committed"),
    bytes: counter("checkpoint_bytes", "Bytes of the parts of checkpoints"),
    buddies: gauge("buddy_bytes", "Bytes of the newest checkpoint's copies in hosts' memory"),
    recovery: new Histogram({
      name: "osiris_recovery_seconds",
      help: "Time from an incident to the first step after the restore",
      registers,
      labelNames: ["run"],
      buckets: [0.25, 0.5, 1, 2, 5, 10, 30, 60],
    }),
    lastEvent: gauge(
      "run_event_timestamp_seconds",
      "Time of the last event, in seconds since 1970",
    ),
    /** Metrics over all runs. */
    broker: new Gauge({
      name: "osiris_broker_up",
      help: "1 while this exporter is connected to the broker; otherwise all figures are old",
      registers,
    }),
    ended: new Counter({
      name: "osiris_runs_ended_total",
      help: "Ended runs, by final status",
      registers,
      labelNames: ["status"],
    }),
  };
}

type Figures = ReturnType<typeof createFigures>;

/**
 * Starts the counters of a new run at 0: Prometheus's `increase` misses the first event of a
 * counter that starts at 1.
 */
function begin({ scalings, checkpoints, bytes, recovery }: Figures, run: string): void {
  for (const counter of [scalings, checkpoints, bytes]) counter.inc({ run }, 0);
  recovery.zero({ run });
}

/** Updates the metrics from an event. */
function note(figures: Figures, event: RunEvent): void {
  const { run } = event;
  if (event.generation > 0) figures.generation.set({ run }, event.generation);
  switch (event.type) {
    case "run.started":
      figures.up.set({ run }, 1);
      figures.step.set({ run }, event.fromStep);
      figures.steps.set({ run }, event.steps);
      figures.devices.set({ run }, event.devices);
      return;
    case "run.progress":
      noteProgress(figures, event);
      return;
    case "run.evaluated":
      for (const [metric, value] of Object.entries(event.metrics)) {
        if (typeof value === "number") figures.metric.set({ run, metric }, value);
      }
      return;
    case "run.checkpointed":
      figures.checkpoints.inc({ run });
      figures.bytes.inc({ run }, event.bytes);
      return;
    case "run.buddies":
      figures.buddies.set({ run }, event.bytes);
      return;
    case "run.waiting":
      figures.up.set({ run }, 1);
      figures.speed.set({ run }, 0);
      return;
    case "run.incident": {
      const [role = ""] = event.offender.split(":");
      if (event.end === undefined) figures.speed.set({ run }, 0);
      figures.incidents.inc({ run, role, code: event.error.code });
      return;
    }
    case "run.recovered":
      figures.recovery.observe({ run }, event.seconds);
      return;
    case "run.alert":
      figures.alerts.inc({ run, code: event.code });
      return;
    case "run.paused":
    case "run.preempted":
      stop(figures, run);
      return;
    case "run.tier":
      figures.tierState.set({ run, device: `${event.device}` }, event.state === "serving" ? 1 : 0);
      return;
    case "run.scaled":
    case "run.moved":
    case "run.adapted":
      figures.scalings.inc({ run });
      return;
    case "run.limited":
    case "run.drained":
    case "run.workers":
      noteInput(figures, event);
      return;
    case "run.link":
      figures.links.set({ run, way: "direct" }, event.direct);
      figures.links.set({ run, way: "broker" }, event.broker);
      return;
    case "run.straggler":
      figures.straggler.set({ run, device: `${event.device}` }, event.factor);
      return;
    case "run.finished":
      stop(figures, run);
      figures.step.set({ run }, event.result.step);
      noteSteps(figures, run, event.result); // A run shorter than a heartbeat has no progress.
      figures.ended.inc({ status: event.result.status });
      return;
    case "run.failed":
      stop(figures, run);
      figures.ended.inc({
        status: event.error.code === "RUN_CANCELLED" ? "cancelled" : "failed",
      });
      return;
    default:
  }
}

/** Updates the metrics of readers and preprocessing workers. */
function noteInput(
  figures: Figures,
  event: Extract<RunEvent, { type: "run.limited" | "run.drained" | "run.workers" }>,
): void {
  const { run } = event;
  if (event.type === "run.limited") figures.readerLimit.set({ run }, event.samplesPerSecond);
  else if (event.type === "run.drained") figures.drains.inc({ run, reader: `${event.reader}` });
  else {
    figures.workers.set({ run }, event.workers);
    figures.workersWanted.set({ run }, event.wanted);
    figures.workersStalled.set({ run }, event.stalled);
  }
}

/** The run has released its devices. */
function stop({ up, speed }: Figures, run: string): void {
  up.set({ run }, 0);
  speed.set({ run }, 0);
}

function noteProgress(
  figures: Figures,
  event: Extract<RunEvent, { readonly type: "run.progress" }>,
): void {
  const { run, step, steps, loss, samplesPerSecond } = event;
  figures.up.set({ run }, 1); // The exporter may have started in the middle of the run.
  figures.step.set({ run }, step);
  figures.steps.set({ run }, steps);
  figures.loss.set({ run }, loss);
  figures.speed.set({ run }, samplesPerSecond);
  noteSteps(figures, run, event);
}

/** Updates the times of steps, and the counts of ids and rows: in mid-run, or at its end. */
function noteSteps(
  figures: Figures,
  run: string,
  of: Pick<RunResult, "repairedIds" | "staleness" | "dynamicIds" | "times">,
): void {
  const { repairedIds, staleness, dynamicIds = [], times } = of;
  for (const { table, ids } of repairedIds) figures.repaired.set({ run, table }, ids);
  for (const { table, rows } of staleness?.tables ?? []) figures.stale.set({ run, table }, rows);
  for (const { table, rowsUsed } of dynamicIds) figures.rowsUsed.set({ run, table }, rowsUsed);
  if (times === undefined) return;
  figures.batches.set({ run }, times.batchesThere);
  figures.reading.set({ run }, times.readMs / 1000);
  if (times.splits !== undefined) {
    figures.overRead.set({ run }, times.splits.overRead);
    figures.diskWait.set({ run }, times.splits.waitMs / 1000);
  }
  if (times.dedupeFactor !== undefined) figures.dedupeFactor.set({ run }, times.dedupeFactor);
  figures.stepSeconds.set({ run }, times.stepMs / 1000);
  for (const [part, share] of Object.entries(times.shares)) figures.share.set({ run, part }, share);
  if (times.exchange !== undefined) {
    const { exposed, inFlight, hidden, hiddenBy } = times.exchange;
    for (const [time, share] of Object.entries({ exposed, in_flight: inFlight, hidden })) {
      figures.exchange.set({ run, time }, share);
    }
    for (const [channel, share] of Object.entries(hiddenBy)) {
      figures.hidden.set({ run, channel }, share);
    }
  }
  if (times.tiers === undefined) return;
  const { hbm, ddr, ssd } = times.tiers;
  for (const [tier, share] of Object.entries({ hbm, ddr, ssd })) {
    figures.tier.set({ run, tier }, share);
  }
}

/** Removes the metrics of a run that ended long ago; its end stays counted. */
async function forget(
  { ended: _ended, broker: _broker, recovery, ...figures }: Figures,
  run: string,
): Promise<void> {
  for (const figure of Object.values(figures)) {
    const { values } = await figure.get();
    for (const { labels } of values) if (labels.run === run) figure.remove(labels);
  }
  recovery.remove({ run });
}
