// One run on two hosts, observed in every way: by traces, by inspection requests, and by its log.

import type { ShardReport } from "../../../actors/host/shard.ts";
import type { ReceivedMessage } from "../../../actors/observe/received-messages.ts";
import { shardLines, topLines, treeLines } from "../../../cli/views/cluster-view.ts";
import { type ClusterReport, Host, readRunLog } from "../../../internal.ts";
import { decodeBody } from "../../../src/wire/messages/body.ts";
import {
  runJob,
  type Story,
  smallModel,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { type CollectedSpan, startCollector } from "../../helpers/clusters/collector.ts";
import { calmRun } from "../../helpers/clusters/either-clusters.ts";
import { shared } from "../../helpers/clusters/one-for-many.ts";
import { until } from "../../helpers/until.ts";

/** On a busy machine, no host of the observed run counts as lost: it has one generation. */
const hostSilenceMs = 60_000;
let story: Story;
let spans: readonly CollectedSpan[];
let report: ClusterReport;
/** By part: the answer to an inspection request in JSON, as any NATS client may send it. */
const parts: Record<string, Record<string, unknown>> = {};
/** The shards when a checkpoint was committed. */
let later: { readonly shards: readonly (ShardReport & { readonly host: number })[] };
/** By rank: the newest messages of its device. */
const heard: (readonly ReceivedMessage[])[] = [];
let log: ReturnType<typeof readRunLog>;
/** The output of the second host's process. */
const hostLines: string[] = [];

/** The observed run: the first test starts it, and all tests use its observations. */
const watched = shared(async () => {
  await using collector = await startCollector();
  const tracing = { endpoint: collector.endpoint, everySteps: 10 };
  await using place = await startTestCluster(1, { minDevices: 2, tracing, hostSilenceMs });
  const { cluster } = place;
  await using host = await Host.join({
    nats: cluster.url,
    token: cluster.token ?? "",
    devices: 1,
    tracing,
    log: { level: "info", write: (line) => void hostLines.push(line) },
  });
  const ask = async (part: string, body?: object) => {
    const subject = `osiris.c1.inspect.${part}`;
    const { transport } = cluster.network;
    const payload = new TextEncoder().encode(body === undefined ? "" : JSON.stringify(body));
    return decodeBody(await transport.request(subject, payload, { deadlineMs: 60_000 }));
  };
  story = await runJob(place, place.job(), async ({ type }) => {
    if (type === "run.checkpointed") {
      const now = (await ask("shards")) as typeof later;
      if (now.shards.length > 0) later = now; // After the last checkpoint the run may be over.
      for (const rank of [0, 1]) {
        const of = { host: rank, actor: `device:${rank}` };
        const answer = (await ask("messages", of)) as { messages?: readonly ReceivedMessage[] };
        if (answer.messages !== undefined) heard[rank] = answer.messages;
      }
    }
    if (type !== "run.started") return;
    // A host that a busy machine stalls for a second is left out: the test asks again.
    await until("the answers of both hosts", async () => {
      report = await cluster.client.inspect();
      for (const part of [
        ...["tree", "mailboxes", "credits", "tiers", "shards", "runs", "incidents", "waits"],
      ]) {
        parts[part] = (await ask(part)) as Record<string, unknown>;
      }
      const lists = [report, ...Object.values(parts)].map(({ unresponsive = [] }) => unresponsive);
      return lists.every((list) => (list as readonly unknown[]).length === 0);
    });
  });
  log = readRunLog(story.result.directory, { run: story.run.run });
  await host.close(); // Flushes the remaining spans.
  await cluster.close();
  spans = [...collector.spans];
  return { async [Symbol.asyncDispose]() {} };
});

watched.test("observing a run changes no bit of its model", async (t) => {
  t.is(story.result.digest, (await calmRun()).digest);
});

watched.test(
  "a step is one trace of both hosts, their devices and readers, with every stage",
  (t) => {
    const traces = [...byTrace(spans).values()];
    const steps = traces.map(([span]) => Number(span?.attributes["osiris.step"]));
    const traced = Array.from({ length: 4 }, (_, i) => 10 * i + 9);
    t.deepEqual(
      steps.sort((a, b) => a - b),
      traced,
    );
    for (const own of traces) {
      const [root, ...others] = own.filter(({ parentSpanId }) => parentSpanId === undefined);
      t.is(others.length, 0);
      t.like(root, { name: "step" });
      t.like(root?.attributes, { "osiris.run": story.run.run, "osiris.generation": 1 });
      t.is(new Set(own.map(({ spanId }) => spanId)).size, own.length);
      const children = own.filter(({ parentSpanId }) => parentSpanId === root?.spanId);
      const names = children.map((one) => `${one.name} ${one.attributes["osiris.actor"]}`).sort();
      const devices = ["device device:0", "device device:1"];
      t.deepEqual(names, [...devices, "read reader:0", "read reader:1"]);
      for (const device of children.filter(({ name }) => name === "device")) {
        checkTasks(t.deepEqual, own, device);
      }
    }
  },
);

watched.test(
  "each shard reports its rows, its lookups, and its part of the newest checkpoint",
  (t) => {
    const shards = later.shards.filter(({ part }) => part !== null);
    t.true(shards.length > 0);
    for (const { actor, host, device, state, lookups, lookupsPerStep, part, ...own } of shards) {
      t.like(own, {
        run: story.run.run,
        generation: 1,
        firstRow: 0,
        firstColumn: 0,
        tier: "memory",
      });
      t.regex(actor, /^shard:\d+$/);
      t.is(host, device);
      t.is(state, "serving");
      t.true(lookups > 0 && Number.isInteger(lookups), `${lookups}`);
      t.true(lookupsPerStep > 0);
      t.true(own.bytes >= 4 * own.rows * own.columns);
      t.regex(part?.name ?? "", /^table-0000\d$/);
      t.true((part?.cut ?? 0) > 0 && (part?.bytes ?? 0) > 0);
    }
    const tables = new Set(later.shards.map(({ table }) => table));
    t.is(tables.size, smallModel.tables?.length ?? 0);
    const lines = shardLines(later.shards);
    t.is(lines.length, 1 + later.shards.length);
  },
);

watched.test(
  "a cluster reports its runs, actors, mailboxes and credits, including other hosts'",
  (t) => {
    const [run] = report.runs;
    t.like(run, {
      run: story.run.run,
      status: "running",
      generation: 1,
      steps: 43,
      devices: 2,
    });
    t.deepEqual(report.unresponsive, []);
    t.deepEqual(
      report.processes.map(({ host }) => host),
      [0, 1],
    );
    for (const [rank, { credits }] of report.processes.entries()) {
      const own = credits.filter(({ actor }) => actor === `device:${rank}`);
      t.deepEqual(
        own.map(({ what }) => what),
        ["batches", "saved bytes"],
      );
      for (const { used, most } of credits) t.true(used >= 0 && most > 0 && used <= most);
    }
    // The supervision tree, as docs/architecture.md draws it.
    const lines = treeLines(report).map((line) => line.replace(/[│├└─]/g, " "));
    const pathTo = (actor: string) => pathIn(lines, actor);
    t.deepEqual(pathTo("device:0"), ["cluster:0", "host:0", "host:0", "device:0"]);
    const allocation = `allocation:${story.run.run}`;
    t.deepEqual(pathTo("coordinator:0"), [
      "cluster:0",
      "queue:0",
      allocation,
      "job:0",
      "coordinator:0",
    ]);
    t.deepEqual(pathTo("device:1").slice(-3), ["host", "host:1", "device:1"]);
    t.true(topLines(report).some((line) => line.includes(`${story.run.run} (`)));
    // A device that runs a window has one task, with the age of the task.
    const boxes = (parts.mailboxes?.mailboxes ?? []) as readonly Record<string, unknown>[];
    const device = boxes.find(({ actor }) => actor === "device:1");
    t.like(device, { host: 1, run: story.run.run, generation: 1 });
    t.true(Number(device?.messages) >= 1);
    t.deepEqual(Object.keys(parts.tree ?? {}), ["trees", "unresponsive"]);
    t.deepEqual(parts.tiers, { tiers: [], unresponsive: [] });
    t.deepEqual(parts.incidents, { incidents: [] });
    t.like(parts.waits, { runs: [{ run: story.run.run }] });
    t.like(parts.runs, { runs: [{ run: story.run.run }] });
  },
);

watched.test("a device shows its newest messages, on the leader's host and on another", (t) => {
  for (const rank of [0, 1]) {
    const messages = heard[rank] ?? [];
    t.true(messages.length > 0 && messages.length <= 8, `${messages.length} of device:${rank}`);
    for (const { type, from, agoMs, bytes } of messages) {
      t.regex(type, /^device\.[a-z]+$/);
      t.regex(from, /^[a-z]+:\d+$/);
      t.true(agoMs >= 0 && bytes > 0);
    }
    t.true(
      messages.some(({ type, text = "" }) => type === "device.run" && text.includes("command")),
    );
  }
});

watched.test("the log of a run has the lines of both hosts", (t) => {
  const ready = log.lines.filter(({ message }) => message === "ready");
  t.deepEqual(ready.map(({ actor }) => actor).sort(), ["device:0", "device:1"]);
  t.true(log.lines.some(({ event }) => event === "run.finished"));
  const [first = "{}"] = hostLines;
  t.like(JSON.parse(first), { level: "info", message: "joined the cluster", host: 1 });
});

/** The names of an actor and its ancestors in a tree of lines. */
function pathIn(lines: readonly string[], actor: string): string[] {
  const depthOf = (line: string) => line.search(/\S/);
  const nameOf = (line: string) => line.trim().split(" ")[0] ?? "";
  const at = lines.findIndex((line) => nameOf(line) === actor);
  const path: string[] = [];
  let depth = Number.POSITIVE_INFINITY;
  for (const line of lines.slice(0, at + 1).reverse()) {
    if (line.includes(": process ")) break;
    if (depthOf(line) >= depth) continue;
    depth = depthOf(line);
    path.unshift(nameOf(line));
  }
  return path;
}

/**
 * Checks that a device's tasks lie in its span, one after the other, and each kind in its order.
 */
function checkTasks(
  equal: (actual: unknown, expected: unknown, message?: string) => void,
  spans: readonly CollectedSpan[],
  device: CollectedSpan,
): void {
  const tasks = spans.filter(({ parentSpanId }) => parentSpanId === device.spanId);
  tasks.sort((a, b) => Number(a.from - b.from));
  equal(tasks[0]?.from, device.from);
  equal(tasks.at(-1)?.to, device.to);
  for (const [at, task] of tasks.entries()) {
    const next = tasks[at + 1];
    equal(task.from <= task.to && (next === undefined || task.to <= next.from), true);
  }
  // The first span of each kind gives a step's tasks in order. A wait for the batch may be
  // missing.
  const first = [...new Set(tasks.map(({ name }) => name))].filter((name) => name !== "batch");
  equal(first, [
    "ids",
    "receiveIds",
    "tiers",
    "lookup",
    "forwardEarly",
    "receiveReads",
    "forwardLate",
    "backwardLate",
    "sendGradients",
    "backwardEarly",
    "receiveGradients",
    "updateRows",
    "allReduce",
    "updateDense",
    "losses",
    "checkpoint",
  ]);
}

function byTrace(spans: readonly CollectedSpan[]): Map<string, CollectedSpan[]> {
  const traces = new Map<string, CollectedSpan[]>();
  for (const span of spans) traces.set(span.traceId, [...(traces.get(span.traceId) ?? []), span]);
  return traces;
}
