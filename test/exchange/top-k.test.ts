// The top-k all-reduce against a definition in plain loops: any devices and hosts give its bits.

import test from "ava";
import type { Exchange, ExchangeShape } from "../../src/exchange/exchange.ts";
import { Routes } from "../../src/exchange/routes.ts";
import { topKUnitsOf } from "../../src/exchange/top-k-layout.ts";
import { subtreesOf } from "../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { rounds } from "../helpers/thinned.ts";
import { startBridgedHosts } from "./bridged-hosts.ts";
import { roundsShape } from "./rounds.ts";

const slices = 8;
/** 70 elements of dense layers, of which few are sent, and 13 others. */
const topK = { length: 70, share: 0.1, groups: 4 };

function shapeOf(devices: number, groups: number, length = 83): ExchangeShape {
  const shape = roundsShape(devices);
  const subtrees = shape.subtrees.map((own) =>
    own.flatMap(({ first, count }) => subtreesOf(first, count, slices / groups)),
  );
  return { ...shape, gradientLength: length, subtrees, topK: { ...topK, groups } };
}

/** The gradient of a slice: numbers whose sum depends on the order of additions. */
function share(slice: number, n: number, round: number): number {
  return Math.fround(Math.sin(1 + slice * 7 + n * 3 + round) * 10 ** ((slice * 5 + n) % 7));
}

function treeSum(first: number, count: number, n: number, round: number): number {
  if (count === 1) return share(first, n, round);
  const half = count / 2;
  return Math.fround(treeSum(first, half, n, round) + treeSum(first + half, half, n, round));
}

function roundedToBfloat16(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
  const near = (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff0000;
  return new Float32Array(Int32Array.of(near).buffer)[0] ?? 0;
}

/** The sums of all rounds, and the residuals after them, from the definition. */
function defined(groups: number, length: number, last: number) {
  const perGroup = slices / groups;
  const residuals = Array.from({ length: groups }, () => new Float32Array(topK.length));
  const sums = Array.from({ length: last }, (_, at) => {
    const sum = new Float32Array(length);
    for (let n = topK.length; n < length; n++) sum[n] = treeSum(0, slices, n, at + 1);
    for (const [g, residual] of residuals.entries()) {
      residual.forEach((value, n) => {
        residual[n] = value + treeSum(g * perGroup, perGroup, n, at + 1);
      });
      const chunk = Math.ceil(topK.length / perGroup / 16) * 16;
      for (let first = 0; first < topK.length; first += chunk) {
        const range = [...residual.subarray(first, first + chunk).entries()];
        const count = Math.ceil(topK.share * range.length);
        const bySize = range.sort(([i, a], [j, b]) => Math.abs(b) - Math.abs(a) || i - j);
        for (const [i, value] of bySize.slice(0, count)) {
          const sent = roundedToBfloat16(value);
          residual[first + i] = value - sent;
          sum[first + i] = (sum[first + i] ?? 0) + sent;
        }
      }
    }
    return sum;
  });
  return { sums, residuals };
}

/** Runs rounds on a device; returns its sums. */
async function reduce({ gradients, rank }: Exchange, shape: ExchangeShape, last: number) {
  const sums: Float32Array[] = [];
  for (let round = 1; round <= last; round++) {
    await gradients.open();
    for (const [i, { first, count }] of (shape.subtrees[rank] ?? []).entries()) {
      const t = gradients.subtrees[i];
      if (t === undefined) continue;
      valuesOf(t).forEach((_, n, all) => {
        all[n] = treeSum(first, count, n, round);
      });
    }
    gradients.start();
    sums.push(Float32Array.from(valuesOf(await gradients.finish())));
    gradients.close();
  }
  return sums;
}

/** Hosts of devices, by number of groups: within hosts, within devices, and over several hosts. */
const placements: Readonly<Record<number, readonly (readonly number[])[]>> = {
  1: [
    [0, 0, 0],
    [0, 1, 1],
    [0, 0, 0, 1, 2, 2],
  ],
  4: [[0], [0, 0, 1, 1], [0, 1, 1], [0, 1, 2, 3, 4, 5, 6, 7]],
  8: [
    [0, 1],
    [0, 0, 0, 1, 2, 2],
  ],
};

for (const [key, all] of Object.entries(placements)) {
  const groups = Number(key);
  for (const hostOf of all) {
    test(`devices of hosts ${hostOf} add the largest elements of ${groups} groups`, async (t) => {
      const last = 4;
      for (let seed = 0; seed < rounds("seeds of top-k rounds", 1, 6); seed++) {
        const length = seed % 2 === 0 ? 83 : topK.length;
        const { sums, residuals } = defined(groups, length, last);
        const shape = shapeOf(hostOf.length, groups, length);
        const faults = { delayMs: [0, 20], drop: 0.1, duplicate: 0.2, reorder: 0.2 } as const;
        const hosts = startBridgedHosts({ shape, hostOf, seed, faults });
        await hosts.run(async (exchange) => {
          t.deepEqual(await reduce(exchange, shape, last), sums, `seed ${seed}`);
        });
        const units = topKUnitsOf({ ...topK, groups }, slices);
        const kept = hosts.exchanges.flatMap(({ gradients }) => gradients.residuals);
        t.deepEqual(
          kept.map(({ slice }) => slice),
          units.map(({ slice }) => slice),
        );
        for (const { slice, values } of kept) {
          const { first, count } = units[slice]?.range ?? { first: 0, count: 0 };
          const group = residuals[Math.floor((slice * groups) / slices)];
          t.deepEqual([...valuesOf(values)], [...(group ?? []).slice(first, first + count)]);
        }
      }
    });
  }
}

test("a host that holds whole groups sends the selected elements, and no other", async (t) => {
  const shape = shapeOf(4, 4, topK.length);
  const hosts = startBridgedHosts({ shape, hostOf: [0, 0, 1, 1], seed: 1 });
  await hosts.run(async (exchange) => void (await reduce(exchange, shape, 3)));
  const units = topKUnitsOf(topK, slices);
  const bytes = units
    .slice(0, 4)
    .reduce((sum, { count }) => sum + 6 * count + ((2 * count) % 4), 0);
  t.true(bytes < (4 * topK.length) / 2);
  for (const { traffic } of hosts.bridges) t.is(traffic.bytes.gradients, 3 * bytes);
  for (const { sent } of hosts.exchanges) t.is(sent.gradients.wire, (3 * bytes) / 2);
});

test("routes of selected elements have one number on all hosts, and room there", (t) => {
  const hostOf = [0, 0, 1, 1, 2];
  const shape = { ...shapeOf(5, 2), hostOf };
  const hosts = [0, 1, 2].map((host) => new Routes(shape, host));
  const seen = new Set<number>();
  for (const [from, routes] of hosts.entries()) {
    for (const { channel, parts } of routes.departures()) {
      if (channel !== "gradients") continue;
      for (const round of [1, 2]) {
        for (const { route, to, first, bytes } of parts(() => round)) {
          if (round === 1) t.false(seen.has(route), routes.whatOf(route));
          seen.add(route);
          for (const other of to) {
            const arrival = hosts[other]?.arrival(route, from);
            t.is(arrival?.channel, channel);
            t.true(first + bytes <= (arrival?.region.bytes ?? -1), routes.whatOf(route));
          }
        }
      }
    }
  }
});
