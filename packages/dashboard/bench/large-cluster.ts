// Simulates a cluster of the largest size for a dashboard: 128 devices on 8 hosts, 5,000 tables,
// and a run that publishes as many events as requested. It answers requests of inspection and of
// the job service; no device computes.

import type { Dashboard } from "../../../actors/cluster/cluster-options.ts";
import type { Network } from "../../../actors/runtime/mailbox.ts";
import type { RunEvent } from "../../../internal.ts";
import { realClock } from "../../../src/ports/clock.ts";
import { waitedFor } from "../../../src/training/meters/step-meter.ts";
import { encodeBody } from "../../../src/wire/messages/body.ts";
import type { Frame, Transport } from "../../../src/wire/messages/transport.ts";
import { openDashboard } from "../server/dashboard.ts";

const run = "r1";
const hosts = 8;
export const largeDevices = 128;
export const largeTables = 5000;

export interface LargeCluster {
  readonly dashboard: Dashboard;
  /** Publishes `count` events of progress at once. */
  tell(count: number): void;
}

/** Serves the dashboard of the simulated cluster. */
export async function openLargeCluster(): Promise<LargeCluster> {
  const events: object[] = [];
  let receive: (frame: Frame) => void = () => {};
  const frameOf = (subject: string, body: unknown): Frame => ({
    subject,
    ...encodeBody(body, "application/json"),
  });
  const transport = {
    address: "played",
    subscribe(subject: string, take: (frame: Frame) => void) {
      if (subject.endsWith(".runs.*.events")) receive = take;
      return { unsubscribe() {} };
    },
    onStatus: () => ({ unsubscribe() {} }),
    async request(subject: string, payload: Uint8Array) {
      const request = JSON.parse(new TextDecoder().decode(payload)) as Record<string, number>;
      const method = subject.split(".").slice(2).join(".");
      const { since = 0, most = 500 } = request;
      if (method !== "jobs.events") return frameOf(subject, answerTo(method, request));
      return frameOf(subject, { events: events.slice(since, since + most) });
    },
  } as unknown as Transport;
  const network = { transport, cluster: "c1", clock: realClock, faultsAllowed: false };
  const settings = { port: 0, host: "127.0.0.1", token: undefined, allow: [] };
  const dashboard = await openDashboard(network as unknown as Network, settings, []);
  let seq = 0;
  const publish = (event: object) => {
    const whole = { ...event, seq: seq++, run, generation: 1 };
    events.push(whole);
    receive(frameOf(`osiris.c1.runs.${run}.events`, whole));
  };
  publish({ type: "run.queued", name: "large" });
  publish(started);
  return {
    dashboard,
    tell(count) {
      for (let at = 0; at < count; at++) publish(progressAt(seq));
    },
  };
}

const started: Omit<Extract<RunEvent, { type: "run.started" }>, "seq" | "run" | "generation"> = {
  type: "run.started",
  ...{ fromStep: 0, steps: 1_000_000, devices: largeDevices, arithmetic: "native-3" },
  hosts: Array.from({ length: hosts }, (_, host) => ({ host, devices: largeDevices / hosts })),
  slices: Array.from({ length: largeDevices }, () => 1),
  plan: { by: "auto", stepSeconds: 0.01, memoryBytes: Array(largeDevices).fill(1e9) },
};

function progressAt(step: number): object {
  const share = 1 / (waitedFor.length + 2);
  const names = ["computing", "sendingIds", ...waitedFor];
  const shares = Object.fromEntries(names.map((name) => [name, share]));
  const loss = 0.3 + 1 / Math.sqrt(step) + 0.02 * Math.sin(step);
  const times = { steps: 10, stepMs: 10 + Math.sin(step / 50), readMs: 1, batchesThere: 2, shares };
  const progress = { step, steps: 1_000_000, loss, samplesPerSecond: 2e5, repairedIds: [], times };
  return { type: "run.progress", ...progress };
}

function answerTo(method: string, { first = 0, most = 1e9 }: Record<string, number>): unknown {
  const line = { run, name: "large", status: "running", priority: 0, step: 1, steps: 1_000_000 };
  if (method === "jobs.list") return { runs: [line] };
  if (method === "inspect.overview") return overviewNow();
  if (method === "inspect.shards") {
    const all = Array.from({ length: largeTables }, (_, at) => shardAt(at));
    return { shards: all.slice(first, first + most), all: all.length, unresponsive: [] };
  }
  if (method === "inspect.tiers") return { tiers: [], unresponsive: [] };
  return {};
}

let beat = 0;

/** Device states change with each request, so that the tree is redrawn. */
function overviewNow(): object {
  beat++;
  const perHost = largeDevices / hosts;
  const processes = Array.from({ length: hosts }, (_, host) => ({
    ...{ host, machine: `machine-${host}`, pid: 100 + host, residentBytes: 1e9 },
    ...{ mainThreadBusy: 0.1, refusedFrames: 0, links: [] },
    actors: actor("process:0", "serving", [
      actor(
        `host:${host}`,
        "beating",
        Array.from({ length: perHost }, (_, at) => {
          const device = host * perHost + at;
          const state = (device + beat) % 16 === 0 ? "idle" : "busy";
          return { ...actor(`device:${device}`, state, []), shards: { serving: 39 } };
        }),
      ),
    ]),
  }));
  return { cluster: "c1", runs: [], processes, unresponsive: [] };
}

function actor(name: string, state: string, children: object[]): object {
  const ofRun = name.startsWith("process") ? {} : { run, generation: 1 };
  return { actor: name, ...ofRun, state, depth: beat % 3, children };
}

function shardAt(at: number): object {
  const device = at % largeDevices;
  const tile = { firstRow: 0, rows: 1e6, firstColumn: 0, columns: 64 };
  return {
    ...{ actor: `shard:${at}`, run, generation: 1, device, state: "serving", table: `table_${at}` },
    ...{ ...tile, tier: "memory", cachedRows: null, bytes: 2.6e8, lookups: 1e9 },
    ...{ lookupsPerStep: 1e6 / (at + 1), step: 10, part: null, pin: null },
  };
}
