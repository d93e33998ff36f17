// The exporter: the metrics that Prometheus reads of runs, incidents and the broker.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { levelOf } from "../../../../actors/observe/event-lines.ts";
import { type EventBody, eventTypes } from "../../../../actors/run/state/run-events.ts";
import { breakableLauncher, Cluster, openExporter, type RunResult } from "../../../../index.ts";
import { startBroker } from "../../../../src/wire/broker/broker.ts";
import { encodeBody } from "../../../../src/wire/messages/body.ts";
import { eventsSubject } from "../../../../src/wire/messages/subjects.ts";
import { connectNats } from "../../../../src/wire/transports/nats-transport.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { until } from "../../../../test/helpers/until.ts";

/** Values of the series in the exporter's text, by name and labels. */
function seriesOf(text: string): Map<string, number> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]),
  );
}

test.serial("the exporter has metrics for a run's steps, speed, incidents and end", async (t) => {
  const directory = startDirectory(t);
  const threads = breakableLauncher();
  await using cluster = await Cluster.start({ devices: 2, launcher: threads.launcher });
  const { url: nats, token } = cluster;
  await using exporter = await openExporter({ nats, ...(token === undefined ? {} : { token }) });
  const effect = { effect: "exit" } as const;
  threads.plan([{ actor: "device:1", generation: 1, step: 60, point: 0, ...effect }]);
  const run = await cluster.submit({
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [{ name: "A", rows: 50, dim: 4, ids: "hash" }],
      bottom: [4],
      top: [4, 1],
    },
    data: {
      kind: "synthetic",
      samples: 4000,
      epochs: 20, // Several heartbeats long, of which each has a report of the steps' times.
      dense: 2,
      batchSize: 64,
      cache: directory,
    },
    evaluation: { fraction: 0.2 },
    checkpoint: { directory: join(directory, "checkpoints"), everySteps: 100 },
  });
  const result = await run.result();
  await cluster.network.transport.flush();
  let series = new Map<string, number>();
  const ended = 'osiris_runs_ended_total{status="finished"}';
  await until(ended, async () => {
    series = seriesOf(await exporter.text());
    return series.get(ended) === 1;
  });

  const of = (name: string, labels = "") => series.get(`osiris_${name}{run="${run.run}"${labels}}`);
  t.is(series.get(ended), 1);
  t.is(of("run_up"), 0);
  t.is(of("run_step"), result.step);
  t.is(of("run_steps"), result.step);
  t.is(of("run_devices"), 2);
  t.is(of("run_generation"), 2);
  t.is(of("incidents_total", ',role="device",code="PEER_LOST"'), 1);
  t.is(of("recovery_seconds_count"), 1);
  t.is(of("evaluation", ',metric="auc"'), result.auc);
  t.true((of("checkpoints_total") ?? 0) >= 3);
  t.true((of("checkpoint_bytes_total") ?? 0) > 1000);
  const shares = [...series].filter(([name]) => name.startsWith("osiris_step_share"));
  t.true(Math.abs(shares.reduce((sum, [, share]) => sum + share, 0) - 1) < 1e-6);
  t.true(series.has("process_cpu_seconds_total"), "metrics of the process are there, too");
});

test.serial(
  "an exporter that starts late knows the running runs; a run without steps has speed 0",
  async (t) => {
    const broker = await startBroker({ auth: { token: "secret" } });
    const place = { token: "secret" };
    const root = await connectNats({
      ...{ servers: broker.url, ...place, name: "root", deadlineMs: 60_000 },
      onError: () => {},
    });
    t.teardown(() => root.close());
    await using exporter = await openExporter({ nats: broker.url, ...place });
    let series = new Map<string, number>();
    const becomes = (name: string, value: number) =>
      until(`${name} ${value}`, async () => {
        series = seriesOf(await exporter.text());
        return series.get(`osiris_${name}`) === value;
      });
    /** Publishes an event of the run, and waits until the metric `name` has `value`. */
    const tell = async (body: EventBody, name: string, value: number) => {
      const event = encodeBody({ ...body, seq: 0, run: "r1", generation: 3 }, "application/json");
      root.publish(eventsSubject("c1", "r1", undefined), event.payload, { headers: event.headers });
      await becomes(name, value);
    };
    const progress = { step: 40, steps: 100, loss: 0.5, samplesPerSecond: 900, repairedIds: [] };
    await tell({ type: "run.progress", ...progress }, 'run_step{run="r1"}', 40);
    const of = (name: string, labels = "") => series.get(`osiris_${name}{run="r1"${labels}}`);
    t.deepEqual([of("run_up"), of("run_step"), of("run_steps")], [1, 40, 100]);
    t.is(of("run_samples_per_second"), 900);
    // Counters start at 0, so that `increase` in PromQL counts the first increment.
    for (const name of ["checkpoints_total", "scalings_total", "recovery_seconds_count"]) {
      t.is(of(name), 0, name);
    }
    t.is(series.get('osiris_runs_ended_total{status="failed"}'), 0);
    const error = { name: "E", code: "PEER_LOST", message: "gone", recovery: "restore" as const };
    const where = { offender: "host:2", supervisor: "job:r1", context: "x" };
    const incident = { incident: 1, at: "2026-01-02T03:04:05Z", ...where, error };
    const counted = 'incidents_total{run="r1",role="host",code="PEER_LOST"}';
    await tell({ type: "run.incident", ...incident }, counted, 1);
    t.deepEqual([of("run_up"), of("run_samples_per_second")], [1, 0]);
    await tell({ type: "run.progress", ...progress }, 'run_samples_per_second{run="r1"}', 900);
    await tell({ type: "run.paused", step: 40 }, 'run_up{run="r1"}', 0);
    t.deepEqual([of("run_up"), of("run_samples_per_second")], [0, 0]);
    const cancelled = { ...error, code: "RUN_CANCELLED" };
    await tell({ type: "run.failed", error: cancelled }, 'runs_ended_total{status="cancelled"}', 1);
    t.is(series.get('osiris_runs_ended_total{status="failed"}'), 0);

    // A run that is shorter than a heartbeat publishes no progress: its result has the times.
    // The exporter reads no other fields of the result.
    const times = { steps: 40, stepMs: 2, shares: { compute: 1 }, batchesThere: 3, readMs: 1 };
    const result = { status: "finished", step: 40, repairedIds: [], times } as unknown as RunResult;
    await tell({ type: "run.finished", result }, 'step_seconds{run="r1"}', 0.002);
    t.deepEqual([of("batches_ready"), of("step_share", ',part="compute"')], [3, 1]);

    t.is(series.get("osiris_broker_up"), 1);
    await broker.close();
    await becomes("broker_up", 0);
  },
);

interface Target {
  readonly expr: string;
  readonly legendFormat: string;
}

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly gridPos: Readonly<Record<"x" | "y" | "w" | "h", number>>;
  readonly targets: readonly Target[];
}

test("each Grafana series of a run names the run, and `rate` is applied to counters only", (t) => {
  const text = readFileSync("deploy/grafana-dashboard.json", "utf8");
  const { panels } = JSON.parse(text) as { readonly panels: readonly Panel[] };
  t.is(new Set(panels.map(({ id }) => id)).size, panels.length);
  t.is(new Set(panels.map(({ gridPos }) => `${gridPos.x} ${gridPos.y}`)).size, panels.length);
  for (const { title, targets } of panels) {
    const legends = targets.map(({ legendFormat }) => legendFormat);
    t.is(new Set(legends).size, legends.length, title);
    for (const { expr, legendFormat } of targets) {
      const isOfRuns = expr.includes("$run") && !/sum by \((?!run)/.test(expr);
      t.is(legendFormat.includes("{{run}}"), isOfRuns, `${title}: ${expr}`);
      for (const [, name = ""] of expr.matchAll(/(?:rate|increase)\((\w+)/g)) {
        t.regex(name, /_(total|bucket)$/, title);
        t.not(name, "osiris_incidents_total", "its series does not begin at 0");
      }
    }
  }
  const evaluation = panels.find(({ title }) => title === "Evaluation");
  t.regex(evaluation?.targets[0]?.expr ?? "", /metric!~"samples\|positives"/, "no counts");
});

test.serial(
  "docs/operations.md lists every metric, and the Grafana dashboard shows exactly these",
  async (t) => {
    const broker = await startBroker({ auth: { token: "secret" } });
    t.teardown(() => broker.close());
    await using exporter = await openExporter({ nats: broker.url, token: "secret" });
    const text = await exporter.text();
    const known = [...text.matchAll(/^# TYPE (osiris_\w+)/gm)].map(([, name]) => name ?? "");
    const page = readFileSync("docs/operations.md", "utf8");
    // A model server exports its own metrics (`osiris_serve_…`) at its own address.
    const listed = [...page.matchAll(/^\| `(osiris_(?!serve_)\w+)`/gm)].map(
      ([, name]) => name ?? "",
    );
    t.deepEqual(listed.sort(), known.sort());
    const dashboard = readFileSync("deploy/grafana-dashboard.json", "utf8");
    const shown = new Set([...dashboard.matchAll(/osiris_\w+/g)].map(([name]) => name));
    const bare = [...shown].map((name) => name.replace(/_(bucket|sum|count)$/, ""));
    t.deepEqual([...new Set(bare)].sort(), known.sort());
  },
);

test("docs/operations.md lists every event with its log level", (t) => {
  const page = readFileSync("docs/operations.md", "utf8");
  const rows = [...page.matchAll(/^\| `(run\.\w+)` \| (\w+) \|/gm)];
  const listed = rows.map(([, type, level]) => [type, type === "run.tier" ? "info" : level]);
  const known = eventTypes.map((type) => [type, levelOf(type)]);
  t.deepEqual(listed.sort(), known.sort());
});
