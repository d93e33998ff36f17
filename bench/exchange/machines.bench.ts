// Question: how fast is the exchange between machines that share nothing but a network, by the way
// of its frames, against a bare socket pair in C over the same cable, and how much of a step is it?
//
// Machines are namespaces of this one, joined by cables (veth) of a rate (tbf); delay and loss are
// made by a program at the switch (bad-cable.py), as many kernels lack netem. Each host has one
// device and one core; with more hosts than cores several share one, so steps are compared between
// ways, not between numbers of hosts. Packets have 9000 bytes: the program carries some 20,000 a
// second.
//
//   machines.CABLE.bare           the socket pair
//   machines.CABLE.WAY.HOSTS.step | rate | exposed | hidden | processor

import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { Option } from "commander";
import {
  type Bench,
  type Measurement,
  positive,
  positiveOption,
  single,
  together,
} from "../bench.ts";
import {
  bareRate,
  type MeasuredRun,
  trainAlone,
  trainOnMachines,
  type Way,
} from "../machines/machine-hosts.ts";
import { type Cable, lacksForMachines } from "../machines/machines.ts";
import type { BenchRow } from "../row.ts";

interface MachinesOptions {
  readonly ways: readonly Way[];
  readonly hosts: readonly number[];
  readonly cables: readonly string[];
  readonly seconds: number;
}

const packetBytes = 9000;
/** By name: rate in bits a second, then delay each way, then loss in thousandths. */
const cables: Readonly<Record<string, Cable>> = {
  "10g": { bitsPerSecond: 1e10, packetBytes },
  "1g": { bitsPerSecond: 1e9, packetBytes },
  "1g-0.1ms": { bitsPerSecond: 1e9, delayMs: 0.1, packetBytes },
  "1g-1ms": { bitsPerSecond: 1e9, delayMs: 1, packetBytes },
  "1g-1ms-loss": { bitsPerSecond: 1e9, delayMs: 1, lossShare: 0.001, packetBytes },
};
const usualCables: readonly string[] = ["10g", "1g", "1g-1ms-loss"];
const usualHosts: readonly number[] = [2, 4];
const usualWays: readonly Way[] = ["a", "b"];
const bareSeconds = 2;
const figures = ["step", "rate", "exposed", "hidden", "processor"] as const;

export const machinesBench: Bench<MachinesOptions> = {
  question: "the exchange between machines apart, by way and cable, against a bare socket pair",
  options: [
    new Option("--ways <way...>", "a: one broker, b: a broker on each machine, c: direct links")
      .choices(["a", "b", "c"])
      .default(usualWays),
    new Option("--hosts <count...>", "machines with a device")
      .argParser((text, all: readonly number[]) => {
        return [...(all === usualHosts ? [] : all), positive(text)];
      })
      .default(usualHosts),
    new Option("--cables <name...>", "cables between them")
      .choices(Object.keys(cables))
      .default(usualCables),
    positiveOption("--seconds <count>", "measured seconds of each", 6),
  ],
  full: { cables: Object.keys(cables), ways: ["a", "b", "c"], seconds: 15 },
  measurements({ ways, hosts, cables: named, seconds }) {
    const cores = availableParallelism();
    const bare = new Map<string, number>();
    let alone: MeasuredRun | undefined;
    const aloneOnce = async () => {
      alone ??= await trainAlone(cores, seconds);
      return alone;
    };
    const names = [`${prefix}.alone.step`, `${prefix}.alone.processor`];
    const first = together(names, 10 + seconds, async () => {
      const { stepMs, processorMs } = await aloneOnce();
      return [rowOf(names[0] ?? "", stepMs, "ms"), rowOf(names[1] ?? "", processorMs, "ms a step")];
    });
    const rest = named.flatMap((name): Measurement[] => {
      const cable = cables[name] ?? { bitsPerSecond: 1e9 };
      const row = `${prefix}.${name}.bare`;
      const limit = { limit: cable.bitsPerSecond / 8, limitIs: "the cable" };
      const bareRow = single(row, 4 + bareSeconds, async () => {
        const rate = await bareRate(cable, bareSeconds);
        bare.set(name, rate);
        return { ...rowOf(row, rate, "bytes/s"), ...limit, ratio: rate / limit.limit };
      });
      const trained = ways.flatMap((way) =>
        hosts.map((count) => {
          const of = `${prefix}.${name}.${way}.${count}`;
          const own = figures.map((figure) => `${of}.${figure}`);
          return together(own, 5 + 3 * count + seconds, async () => {
            const flags = flagsOf(way);
            const run = await trainOnMachines({ cable, hosts: count, way, seconds, flags, cores });
            return rowsOf(of, run, { bare: bare.get(name), alone: await aloneOnce() });
          });
        }),
      );
      return [bareRow, ...trained];
    });
    return [first, ...rest].map(whereAllowed);
  },
};

const prefix = "machines";
const main = fileURLToPath(new URL("../../cli/main.js", import.meta.url));

/** Skips a measurement where this process may not make machines, and says why. */
function whereAllowed(measurement: Measurement): Measurement {
  return {
    ...measurement,
    async *measure(isWanted) {
      const lack = lacksForMachines();
      if (lack === undefined) yield* measurement.measure(isWanted);
      else console.error(`Skipped ${measurement.names.join(", ")}: ${lack}`);
    },
  };
}

/** The flags of `osiris up` that choose the way of frames. Without any, they go over the broker. */
function flagsOf(way: Way): readonly string[] {
  const hasLinks = execFileSync(process.execPath, [main, "up", "--help"]).includes("--links");
  if (way !== "c") return hasLinks ? ["--links", "broker"] : [];
  if (!hasLinks) throw new RangeError("`osiris up` has no direct links: measure --ways a b");
  return ["--links", "direct"];
}

function rowOf(name: string, figure: number, unit: string): BenchRow {
  return { name, figure, unit, spread: [figure, figure] };
}

function rowsOf(
  of: string,
  { stepMs, exchange, sentBytes, processorMs }: MeasuredRun,
  { bare, alone }: { readonly bare: number | undefined; readonly alone: MeasuredRun },
): BenchRow[] {
  const { exposed, inFlight, hidden } = exchange;
  // Over the time with bytes in flight, as waits for devices that compute leave the cable idle.
  const rate = sentBytes / ((stepMs / 1000) * (inFlight + hidden));
  const { processorMs: own } = alone;
  return [
    rowOf(`${of}.step`, stepMs, "ms"),
    {
      ...rowOf(`${of}.rate`, rate, "bytes/s"),
      ...(bare !== undefined && { limit: bare, limitIs: "a socket pair in C", ratio: rate / bare }),
    },
    rowOf(`${of}.exposed`, 100 * exposed, "% of a step"),
    rowOf(`${of}.hidden`, 100 * hidden, "% of a step"),
    {
      ...rowOf(`${of}.processor`, processorMs, "ms a step"),
      ...{ limit: own, limitIs: "two devices of one process", ratio: processorMs / own },
    },
  ];
}
