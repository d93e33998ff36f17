import test from "ava";
import { Host } from "../../index.ts";
import { stepStages } from "../../src/training/step-trace.ts";
import { calmResult, play, startTestCluster } from "../helpers/clusters.ts";
import { type CollectedSpan, startCollector } from "../helpers/collector.ts";

test("a step is one trace: of both hosts, their devices and readers, with every stage", async (t) => {
  await using collector = await startCollector();
  const tracing = { endpoint: collector.endpoint, everySteps: 10 };
  const place = await startTestCluster(1, { minDevices: 2, tracing });
  const { url: nats, token = "" } = place.cluster;
  const host = await Host.join({ nats, token, devices: 1, tracing });
  const { run, result } = await play(place, place.job());
  await host.close(); // Hands over what is left.
  await place[Symbol.asyncDispose]();
  t.is(result.digest, (await calmResult()).digest, "it changed no bit");

  const traces = byTrace(collector.spans);
  const steps = [...traces.values()].map(([span]) => span?.attributes["osiris.step"]);
  t.deepEqual(steps.sort(), [19, 29, 39, 9]);
  for (const spans of traces.values()) {
    const [root, ...others] = spans.filter(({ parentSpanId }) => parentSpanId === undefined);
    t.is(others.length, 0);
    t.like(root, { name: "step" });
    t.like(root?.attributes, { "osiris.run": run.run, "osiris.generation": 1 });
    t.is(new Set(spans.map(({ spanId }) => spanId)).size, spans.length);
    const children = spans.filter(({ parentSpanId }) => parentSpanId === root?.spanId);
    const names = children.map((one) => `${one.name} ${one.attributes["osiris.actor"]}`).sort();
    t.deepEqual(names, ["device device:0", "device device:1", "read reader:0", "read reader:1"]);
    for (const device of children.filter(({ name }) => name === "device")) {
      checkStages(t.deepEqual, spans, device);
    }
  }
});

/** The stages of a device lie in its span, one after the other, each kind of them at its place. */
function checkStages(
  equal: (actual: unknown, expected: unknown, message?: string) => void,
  spans: readonly CollectedSpan[],
  device: CollectedSpan,
): void {
  const stages = spans.filter(({ parentSpanId }) => parentSpanId === device.spanId);
  stages.sort((a, b) => Number(a.from - b.from));
  equal(stages[0]?.from, device.from);
  equal(stages.at(-1)?.to, device.to);
  for (const [at, stage] of stages.entries()) {
    const next = stages[at + 1];
    equal(stage.from <= stage.to && (next === undefined || stage.to <= next.from), true);
  }
  // The first of each kind: what a step does, in its order. Batches were there, or not.
  const first = [...new Set(stages.map(({ name }) => name))].filter((name) => name !== "batch");
  equal(first, [
    "ids",
    "compute",
    "tiers",
    "lookup",
    "exchange",
    "update",
    "allReduce",
    "checkpoint",
  ]);
  equal(
    first.every((name) => (stepStages as readonly string[]).includes(name)),
    true,
  );
}

function byTrace(spans: readonly CollectedSpan[]): Map<string, CollectedSpan[]> {
  const traces = new Map<string, CollectedSpan[]>();
  for (const span of spans) traces.set(span.traceId, [...(traces.get(span.traceId) ?? []), span]);
  return traces;
}
