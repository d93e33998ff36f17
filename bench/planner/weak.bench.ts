// Question: how would a step grow from 1 to 128 hosts, if every device brings its own samples, and
// the tables are the same? PREDICTED, not measured: by the planner's cost model, stage after stage,
// with a link that `npm run bench -- machines` measured between two machines (--rate, --round). A
// device's own work has the constants of a core of a small server. Overlap is not counted, so steps
// are upper bounds.
//
//   weak.hierarchical.HOSTS.step, exposed   devices of a host share memory, and one sum of it
//   weak.flat.HOSTS.step, exposed           each device exchanges alone, by its share of the link

import { Option } from "commander";
import { assessPlan } from "../../src/planner/assess.ts";
import { serverConstants } from "../../src/planner/cost/constants.ts";
import type { Setting } from "../../src/planner/cost/cost.ts";
import { withLinks } from "../../src/planner/fleet.ts";
import { deviceCount, type Plan } from "../../src/planner/shards.ts";
import { type Bench, notNegative, positiveOption, together } from "../bench.ts";
import type { BenchRow } from "../row.ts";

interface WeakOptions {
  /** Bytes a second that leave a host, and seconds of a round without bytes. */
  readonly rate: number;
  readonly round: number;
  readonly perHost: number;
}

const hostCounts = [1, 2, 4, 8, 16, 32, 64, 128] as const;
const kinds = ["hierarchical", "flat"] as const;
/** One for each device of the most hosts. */
const tables = 1024;
const samplesOfDevice = 64;

export const weakBench: Bench<WeakOptions> = {
  question: "PREDICTED step and exposed exchange from 1 to 128 hosts, by measured links",
  options: [
    positiveOption("--rate <bytes>", "bytes a second that a host sends", 76e6),
    new Option("--round <seconds>", "seconds of a round without bytes")
      .argParser(notNegative)
      .default(5e-4),
    positiveOption("--per-host <count>", "devices of a host", 8),
  ],
  measurements(options) {
    const names = kinds.flatMap((kind) =>
      hostCounts.flatMap((hosts) => [
        `weak.${kind}.${hosts}.step`,
        `weak.${kind}.${hosts}.exposed`,
      ]),
    );
    return [together(names, 2, () => kinds.flatMap((kind) => rowsOf(kind, options)))];
  },
};

function rowsOf(kind: (typeof kinds)[number], options: WeakOptions): BenchRow[] {
  let one = 0;
  return hostCounts.flatMap((hosts) => {
    const setting = settingOf(kind, hosts, options);
    const { stages, step } = assessPlan(setting, spread(setting));
    const { inputExchange, outputExchange, backwardExchange, allReduce } = stages;
    const rounds = 4 * setting.constants.hostRoundSeconds;
    const waited = inputExchange + outputExchange + backwardExchange + allReduce + rounds;
    if (hosts === 1) one = step;
    const ms = 1000 * step;
    const share = (100 * waited) / step;
    return [
      {
        ...{ name: `weak.${kind}.${hosts}.step`, figure: ms, unit: "ms, predicted" },
        ...{ limit: 1000 * one, limitIs: "one host; the ratio is the efficiency" },
        ...{ ratio: one / step, spread: [ms, ms] },
      },
      {
        ...{ name: `weak.${kind}.${hosts}.exposed`, figure: share, unit: "% of a step, predicted" },
        spread: [share, share],
      },
    ];
  });
}

function settingOf(
  kind: (typeof kinds)[number],
  hosts: number,
  { rate, round, perHost }: WeakOptions,
): Setting {
  const count = hosts * perHost;
  const links = { allToAll: rate, allReduce: rate, roundSeconds: round };
  const own = { allToAll: rate / perHost, allReduce: rate / perHost, roundSeconds: round };
  const isFlat = kind === "flat";
  return {
    workload: {
      tables: Array.from({ length: tables }, (_, i) => ({
        ...{ name: `T${i}`, rows: 100_000, dim: 32, rowBlocks: 1, poolingFactor: 1, zipf: 1.05 },
        ...{ weightBytes: 4, stateBytes: 0, rowBytes: 5, sumRounds: 1 },
        ...{ schemes: ["table-wise"] as const, tiers: ["memory"] as const },
      })),
      batchSize: samplesOfDevice * count,
      ...{ denseParameters: 1_000_000, denseFlop: 6_000_000, denseActivations: 2000 },
      ...{ denseOwnProducts: 1000, denseLayers: 6, readers: 1 },
    },
    devices: isFlat ? { hosts: count, perHost: 1 } : { hosts, perHost },
    constants: isFlat
      ? withLinks(serverConstants, new Array(count).fill(1), own)
      : withLinks(serverConstants, new Array(hosts).fill(perHost), links),
  };
}

/** Equal tables, dealt to the devices in turn. */
function spread({ workload, devices }: Setting): Plan {
  const count = deviceCount(devices);
  const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  const shards = workload.tables.map(({ name }, at) => {
    const whole = { scheme: "table-wise", tier: "memory", device: at % count } as const;
    return { ...tile, ...whole, table: name };
  });
  return { devices, shards };
}
