// The exporter: what Prometheus reads of a run that was broken and went on.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { levelOf } from "../../actors/event-lines.ts";
import { eventTypes } from "../../actors/run-events.ts";
import { breakableLauncher, Cluster, openExporter } from "../../index.ts";

/** Values of the series, by name and labels as they stand in the text. */
function seriesOf(text: string): Map<string, number> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]),
  );
}

test("a run's steps, speed, incidents and end are figures", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const threads = breakableLauncher();
  await using cluster = await Cluster.start({ devices: 2, launcher: threads.launcher });
  const { url: nats, token } = cluster;
  await using exporter = await openExporter({ nats, ...(token === undefined ? {} : { token }) });
  const effect = { effect: "exit" } as const;
  threads.plan([{ actor: "device:1", generation: 1, step: 150, point: 0, ...effect }]);
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
      samples: 20_000,
      passes: 4,
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
  while (!series.has(ended)) series = seriesOf(await exporter.text());

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
  t.true(series.has("process_cpu_seconds_total"), "and those of the process");
});

test("docs/operations.md lists every metric, and the dashboard shows all of them and no other", async (t) => {
  await using cluster = await Cluster.start({ devices: 1 });
  const { url: nats, token } = cluster;
  await using exporter = await openExporter({ nats, ...(token === undefined ? {} : { token }) });
  const text = await exporter.text();
  const known = [...text.matchAll(/^# TYPE (osiris_\w+)/gm)].map(([, name]) => name ?? "");
  const page = readFileSync("docs/operations.md", "utf8");
  const listed = [...page.matchAll(/^\| `(osiris_\w+)`/gm)].map(([, name]) => name ?? "");
  t.deepEqual(listed.sort(), known.sort());
  const dashboard = readFileSync("deploy/grafana-dashboard.json", "utf8");
  const shown = new Set([...dashboard.matchAll(/osiris_\w+/g)].map(([name]) => name));
  const bare = [...shown].map((name) => name.replace(/_(bucket|sum|count)$/, ""));
  t.deepEqual([...new Set(bare)].sort(), known.sort());
});

test("docs/operations.md lists every event, and the level of its line", (t) => {
  const page = readFileSync("docs/operations.md", "utf8");
  const rows = [...page.matchAll(/^\| `(run\.\w+)` \| (\w+) \|/gm)];
  const listed = rows.map(([, type, level]) => [type, type === "run.tier" ? "info" : level]);
  const known = eventTypes.map((type) => [type, levelOf(type)]);
  t.deepEqual(listed.sort(), known.sort());
});
