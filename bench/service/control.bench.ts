// Question: how many messages a second does the control of a large run take, and what share of a
// core do they cost the broker and the leader? A run of many hosts trains in the simulator, which
// runs the real actors in virtual time, so that the messages of a second are exact whatever the
// machine. They are then sent again through a real nats-server at their own rate, between one
// connection a host and that of the leader, and the server's processor time counts. The leader's
// figure is the time to decode and check received messages, without the work of its actors.

import { setTimeout as sleep } from "node:timers/promises";
import { SimulatedCluster } from "../../chaos/simulation/cluster.ts";
import { World } from "../../chaos/simulation/world.ts";
import type { JobOptions } from "../../src/job/job.ts";
import { messages } from "../../src/wire/messages/messages.ts";
import type { Frame } from "../../src/wire/messages/transport.ts";
import { connectNats } from "../../src/wire/transports/nats-transport.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import type { BenchRow } from "../row.ts";
import { spentMsOf } from "../spent.ts";
import { startNatsServer } from "./nats-server.ts";

interface ControlBenchOptions {
  readonly hosts: number;
  /** Devices of each host. */
  readonly devices: number;
  /** Seconds that the messages are sent for. */
  readonly seconds: number;
}

const virtualMs = 2000;

export const controlBench: Bench<ControlBenchOptions> = {
  question: "messages a second of a large run's control, and their share of a core",
  options: [
    positiveOption("--hosts <count>", "of the run", 32),
    positiveOption("--devices <count>", "of each host", 4),
    positiveOption("--seconds <seconds>", "of sending", 5),
  ],
  measurements(options) {
    const names = ["messages", "host", "leader", "broker"].map((what) => `control.${what}`);
    const seconds = 20 + 0.5 * options.hosts * options.devices + options.seconds;
    return [together(names, seconds, () => rowsOf(options))];
  },
};

async function rowsOf({ hosts, devices, seconds }: ControlBenchOptions): Promise<BenchRow[]> {
  const frames = await framesOf(hosts, devices);
  const perSecond = (1000 * frames.length) / virtualMs;
  const spreadOf = (figure: number) => ({ figure, spread: [figure, figure] as const });
  const kinds = new Map<string, number>();
  for (const { subject } of frames) {
    const kind = /[a-z-]+$/.exec(subject)?.[0] ?? "answers";
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1000 / virtualMs);
  }
  const list = [...kinds].map(([kind, count]) => `${kind} ${count.toFixed(0)}`).join(", ");
  const rows: BenchRow[] = [
    { name: "control.messages", ...spreadOf(perSecond), unit: `messages/s (${list})` },
    { name: "control.host", ...spreadOf(perSecond / hosts), unit: "messages/s and host" },
    { name: "control.leader", ...spreadOf(decodeShare(frames)), unit: "% of a core" },
  ];
  const share = await brokerShare(frames, hosts, seconds);
  return [
    ...rows,
    { name: "control.broker", ...spreadOf(share), unit: "% of a core (nats-server)" },
  ];
}

/** The messages of control in some virtual seconds of training, from its second step on. */
async function framesOf(hosts: number, devices: number): Promise<Frame[]> {
  const all = hosts * devices;
  const tables = ["a", "b", "c"].map((name) => ({ name, rows: 40, dim: 4 }));
  const job = {
    sharding: "as-written",
    devices: all,
    model: { kind: "dlrm", dense: 2, tables, bottom: [4, 4], top: [4, 1] },
    data: { kind: "synthetic", samples: 1e6, dense: 2, batchSize: all, cache: "/cache" },
    slices: (2 ** Math.ceil(Math.log2(Math.max(4, all)))) as JobOptions["slices"],
    arithmetic: "reference",
    checkpoint: { everySteps: 100_000, directory: "/run" },
    stepDeadlineMs: 60_000,
  } satisfies JobOptions;
  const world = new World(1);
  const shape = {
    devices: new Array<number>(hosts).fill(devices),
    speed: { turnMs: 100, startMs: 1 },
    delayMs: [0, 0.1],
  } as const;
  const cluster = new SimulatedCluster(world, { shape, job, seed: 1 });
  const frames: Frame[] = [];
  let isCounting = false;
  let isTraining = false;
  cluster.broker.connect("listener").subscribe(">", (frame) => {
    if (isCounting && !frame.subject.endsWith(".frame")) frames.push(frame);
  });
  cluster.onEvent((event) => {
    if (event.type === "run.failed") throw new Error(event.error.message);
    isTraining ||= event.type === "run.progress" && event.step >= 2;
  });
  await world.run(() => isTraining, 600_000);
  isCounting = true;
  await world.run(() => false, world.clock.now() + virtualMs);
  cluster.close();
  return frames;
}

function isToLeader({ subject }: Frame): boolean {
  return /\.(coordinator|hosts)\.\d+\./.test(subject);
}

/** Percent of a core in which the leader decodes and checks received messages. */
function decodeShare(frames: readonly Frame[]): number {
  const received = frames.filter(isToLeader);
  let spentMs = 0;
  for (let round = 0; round < 40; round++) {
    const startMs = performance.now();
    for (const { payload, subject } of received) messages.decode({ subject, payload });
    if (round >= 20) spentMs += performance.now() - startMs; // V8 compiles in the first rounds.
  }
  return (100 * spentMs) / 20 / virtualMs;
}

/** Percent of a core that a nats-server uses while these frames pass at their own rate. */
async function brokerShare(
  frames: readonly Frame[],
  hosts: number,
  seconds: number,
): Promise<number> {
  await using server = await startNatsServer("control");
  const { url: servers, pid } = server;
  const connections = await Promise.all(
    Array.from({ length: hosts + 1 }, (_, i) =>
      connectNats({ servers, name: `client${i}`, deadlineMs: 10_000 }),
    ),
  );
  const [leader, ...others] = connections;
  for (const subject of new Set(frames.map((frame) => frame.subject))) {
    const toLeader = frames.some((one) => one.subject === subject && isToLeader(one));
    const index = Number(/\d+(?=\.[^.]*$)/.exec(subject)?.[0] ?? 0) % hosts;
    (toLeader ? leader : others[index])?.subscribe(subject, () => {});
  }
  await Promise.all(connections.map((one) => one.flush()));
  const fromMs = spentMsOf(pid);
  const startMs = performance.now();
  for (let sent = 0; performance.now() - startMs < 1000 * seconds; ) {
    const due = ((performance.now() - startMs) / virtualMs) * frames.length;
    for (; sent < due; sent++) {
      const frame = frames[sent % frames.length];
      if (frame === undefined) continue;
      const from = isToLeader(frame) ? others[sent % hosts] : leader;
      from?.publish(frame.subject, frame.payload, { headers: frame.headers });
    }
    await sleep(2);
  }
  const share = (100 * (spentMsOf(pid) - fromMs)) / (performance.now() - startMs);
  await Promise.all(connections.map((one) => one.close()));
  return share;
}
