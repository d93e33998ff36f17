// Question: how well does the planner predict a step over two hosts, with links of 12.5 GB/s as it
// assumed, and with the links that the hosts measure before their first plan? The hosts are two
// processes of this machine with one device each, and the broker is the leader's.
//
// `links.exchange.*`: predicted seconds of the exchange over the seconds that devices wait for it;
// `links.step.*`: the predicted over the measured step, once programs are compiled.

import { totalmem } from "node:os";
import { join } from "node:path";
import { quickSize } from "../../actors/calibration/measure-rates.ts";
import { Cluster } from "../../internal.ts";
import { calibrate } from "../../packages/what-if/index.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { assessPlan } from "../../src/planner/assess.ts";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import { withLinks } from "../../src/planner/fleet.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { startHost } from "../service/lost-host.bench.ts";

interface LinksOptions {
  readonly rounds: number;
  readonly seconds: number;
}

const devices = { hosts: 2, perHost: 1 } as const;
const ways = ["assumed", "measured"] as const;
const figures = ["exchange", "step"] as const;
const names = figures.flatMap((figure) => ways.map((way) => `links.${figure}.${way}`));

export const linksBench: Bench<LinksOptions> = {
  question: "predicted over measured exchange between two processes, by assumed and measured links",
  options: [
    positiveOption("--rounds <count>", "trainings", 2),
    positiveOption("--seconds <count>", "that a round trains", 12),
  ],
  measurements: ({ rounds, seconds }) => [
    together([...names, "links.rate", "links.round"], 30 + rounds * (seconds + 10), () =>
      measure(rounds, seconds),
    ),
  ],
};

async function measure(rounds: number, seconds: number): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-bench-links-");
  const { XDG_CACHE_HOME: cache, OSIRIS_CONSTANTS: named } = process.env;
  try {
    delete process.env.OSIRIS_CONSTANTS; // Where constants are named, links are not measured.
    const constants = await calibrate({
      ...{ devices: 2, memoryBytes: totalmem() / 2, source: "this bench", stepsOn: [1, 2] },
      size: quickSize(openKernels("auto").arithmetic),
    });
    const found: Map<string, number[]> = new Map();
    for (let round = 0; round < rounds; round++) {
      const own = join(home.path, `${round}`);
      process.env.XDG_CACHE_HOME = own;
      for (const [name, value] of Object.entries(await ratiosOf(own, seconds, constants))) {
        found.set(name, [...(found.get(name) ?? []), value]);
      }
    }
    return [...found].map(([name, values]) => {
      const unit =
        name === "links.rate" ? "bytes/s" : name === "links.round" ? "s" : "predicted/measured";
      const { median: figure, spread } = quantiles(values);
      return { name, figure, unit, spread };
    });
  } finally {
    Object.assign(process.env, cache !== undefined && { XDG_CACHE_HOME: cache });
    Object.assign(process.env, named !== undefined && { OSIRIS_CONSTANTS: named });
  }
}

async function ratiosOf(home: string, seconds: number, constants: MachineConstants) {
  const tables = Array.from({ length: 16 }, (_, i) => ({ name: `t${i}`, rows: 20_000, dim: 64 }));
  const own: JobOptions = {
    model: { kind: "dlrm", dense: 13, tables, bottom: [64], top: [64, 1] },
    data: {
      ...{ kind: "synthetic", samples: 200_000, dense: 13, batchSize: 2048, epochs: 1000 },
      ...{ zipf: 1.05, cache: join(home, "cache") },
    },
    checkpoint: { directory: join(home, "checkpoints"), everySteps: 1_000_000 },
    stepDeadlineMs: 60_000,
  };
  const job = resolveJob(own);
  const planned = planJob(job, { devices, constants: withLinks(constants, [1, 1], undefined) });
  if (!planned.isFeasible) throw new RangeError("A small job fits any host");
  await using cluster = await Cluster.start({ devices: 0, minDevices: 2 });
  const hosts = [0, 1].map(() => startHost(cluster));
  try {
    const run = await cluster.submit({ ...own, devices: 2, plan: JSON.parse(planned.text) });
    let links: Parameters<typeof withLinks>[2];
    for await (const event of run.events()) {
      if (event.type === "run.failed") throw new Error(event.error.message);
      if (event.type !== "run.started") continue;
      links = event.plan?.links;
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    await run.cancel();
    const { times } = await run.result();
    if (links === undefined || times?.warm === undefined) throw new Error("Nothing was measured");
    const step = times.warm.stepMs / 1000;
    const { ids, pooled, dPooled, gradients, losses } = times.shares;
    const waited = step * (ids + pooled + dPooled + gradients + losses);
    const rows = { "links.rate": links.allToAll, "links.round": links.roundSeconds };
    for (const way of ways) {
      const own = way === "assumed" ? constants : withLinks(constants, [1, 1], links);
      const setting = { workload: workloadOf(job), devices, constants: own };
      const assessed = assessPlan(setting, planned.plan);
      const { inputExchange, outputExchange, backwardExchange, allReduce } = assessed.stages;
      const sent = inputExchange + outputExchange + backwardExchange + allReduce;
      Object.assign(rows, {
        [`links.exchange.${way}`]: (sent + 4 * own.hostRoundSeconds) / waited,
        [`links.step.${way}`]: assessed.step / step,
      });
    }
    return rows;
  } finally {
    for (const host of hosts) host.kill("SIGKILL");
  }
}
