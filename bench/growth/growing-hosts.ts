// Whole runs of two devices, on one host and on two: processes of this machine that join over the
// cluster's broker, as hosts on other machines do. Frames of two hosts travel over the broker, over
// direct links, or over two nats-servers that form a cluster, one a host.

import { once } from "node:events";
import { join } from "node:path";
import { Cluster } from "../../internal.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { configuration } from "../configurations.ts";
import { quantileOf } from "../row.ts";
import { startHost } from "../service/lost-host.bench.ts";
import { startNatsServer } from "../service/nats-server.ts";
import { spentMsOf } from "../spent.ts";

const batchSize = 2048;
/** Progress events that are skipped while programs compile, and events that are measured. */
const [warmUp, measured] = [4, 12];
const joinMs = 60_000;

/** Milliseconds of a step: processor time of all processes, and the run's own figure. */
interface RunCost {
  readonly workMs: number;
  readonly stepMs: number;
}

/** How the frames of two hosts travel; `one`: there is one host. */
const ways = ["one", "broker", "direct", "servers", "again"] as const;

/** The costs of a round. `again` is `one`, measured once more: it shows the error of the bench. */
export type HostRound = Readonly<Record<(typeof ways)[number], RunCost>>;

export async function* hostRounds(rounds: number): AsyncGenerator<HostRound, void> {
  using home = temporaryHome("osiris-growth-");
  for (let round = 0; round < rounds; round++) {
    const costs: [string, RunCost][] = [];
    for (const way of ways)
      costs.push([way, await costOn(way, join(home.path, `${round}-${way}`), home.path)]);
    yield Object.fromEntries(costs) as HostRound;
  }
}

/** Measures a run of two devices. `stepMs` is the 10th percentile of the reported steps. */
async function costOn(
  way: keyof HostRound,
  checkpoints: string,
  directory: string,
): Promise<RunCost> {
  const hosts = way === "one" || way === "again" ? 1 : 2;
  await using servers = way === "servers" ? await startServers() : undefined;
  const [own, others] = servers?.urls ?? [];
  const links = way === "direct" ? "direct" : "broker";
  await using cluster = await Cluster.start({
    ...{ devices: 2 / hosts, links },
    ...(own !== undefined && { nats: own }),
  });
  const joined = hosts === 2 ? startHost(cluster, others ?? cluster.url) : undefined;
  const pids = [...(servers?.pids ?? []), ...(joined?.pid === undefined ? [] : [joined.pid])];
  try {
    const deadline = performance.now() + joinMs;
    while (cluster.hosts.length < hosts) {
      if (performance.now() > deadline) throw new Error(`No second host came in ${joinMs} ms`);
      await new Promise((resume) => setTimeout(resume, 50));
    }
    const run = await cluster.submit({
      model: configuration("a").model,
      devices: 2,
      data: {
        ...{ kind: "synthetic", samples: 40 * batchSize, dense: 13, batchSize, epochs: 10_000 },
        cache: join(directory, "cache"),
      },
      checkpoint: { directory: checkpoints, everySteps: 1_000_000 },
    });
    const stepMs: number[] = [];
    let from = { step: 0, spentMs: 0 };
    let to = from;
    for await (const event of run.events()) {
      if (event.type === "run.started" && event.hosts.length !== hosts) {
        throw new Error(`The run is on ${event.hosts.length} hosts instead of ${hosts}`);
      }
      if (event.type !== "run.progress" || event.times === undefined) continue;
      stepMs.push(event.times.stepMs);
      to = { step: event.step, spentMs: spentMsBy(pids) };
      if (stepMs.length === warmUp) from = to;
      if (stepMs.length === warmUp + measured) break;
    }
    await run.cancel();
    const workMs = (to.spentMs - from.spentMs) / (to.step - from.step);
    return { workMs, stepMs: quantileOf(stepMs.slice(warmUp))(0.1) };
  } finally {
    joined?.kill("SIGKILL");
    if (joined?.exitCode === null && joined.signalCode === null) await once(joined, "exit");
  }
}

/** Processor time so far of this process and, on Linux only, of others. */
function spentMsBy(pids: readonly number[]): number {
  const { user, system } = process.cpuUsage();
  if (process.platform !== "linux") return (user + system) / 1000;
  return pids.reduce((sum, pid) => sum + spentMsOf(pid), (user + system) / 1000);
}

/** Starts two nats-servers that form a cluster. */
async function startServers() {
  const alone = ["--cluster_name", "growth", "--cluster", "nats://127.0.0.1:-1"];
  const first = await startNatsServer("growth", () => alone);
  const second = await startNatsServer("growth", () => [...alone, "--routes", first.routes ?? ""]);
  return {
    urls: [first.url, second.url],
    pids: [first.pid, second.pid],
    async [Symbol.asyncDispose]() {
      await Promise.all([first, second].map((one) => one[Symbol.asyncDispose]()));
    },
  };
}
