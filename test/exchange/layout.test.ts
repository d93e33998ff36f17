// The layout of the exchange at the largest sizes, computed and not allocated: the memory of a host
// depends on the data of its own devices; only cells grow with the number of all devices.

import test from "ava";
import { inboxBytesMax, spanAt, storeSpan } from "../../src/exchange/cells.ts";
import type { Extent } from "../../src/exchange/exchange.ts";
import { allToAllNames, type ExchangeShape, insideHost } from "../../src/exchange/exchange.ts";
import { grainsOf, layoutOf } from "../../src/exchange/layout.ts";
import { Routes } from "../../src/exchange/routes.ts";
import { resolveJob } from "../../src/job/job.ts";
import { devicesMax } from "../../src/job/job-schema.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { topologyOf } from "../../src/training/topology/topology.ts";

const batchSize = 16_384;

/** The exchange of a job of 1,000 tables. */
function shapeOf(devices: number, perHost: number): ExchangeShape {
  const tables = Array.from({ length: 1000 }, (_, i) => ({
    name: `t${i}`,
    rows: 100_000,
    dim: 16,
  }));
  const { model } = resolveJob({
    model: { kind: "dlrm", dense: 13, tables, bottom: [64, 16], top: [64, 1], interaction: "cat" },
    data: { kind: "synthetic", samples: batchSize, batchSize },
    slices: devicesMax,
    checkpoint: { directory: "checkpoints" },
  });
  const hostOf = Array.from({ length: devices }, (_, rank) => Math.floor(rank / perHost));
  const input = { model, batchSize, slices: devicesMax, idsMax: tables.map(() => 1) };
  return exchangeShapeOf(topologyOf(input, devices, hostOf));
}

/** Bytes that the devices of a host receive, and send to other hosts, in the largest rounds. */
function movedBytes({ devices, bytesMax }: ExchangeShape, perHost: number): number {
  let bytes = 0;
  for (const name of allToAllNames) {
    for (let own = 0; own < perHost; own++) {
      for (let other = 0; other < devices; other++) {
        bytes += bytesMax[name](other, own);
        if (other >= perHost) bytes += bytesMax[name](own, other);
      }
    }
  }
  return bytes;
}

for (const [hosts, perHost] of [
  [128, 8],
  [1, 128],
  [8, 128],
] as const) {
  test(`${hosts} x ${perHost} devices: a host has memory for what its own devices move`, (t) => {
    const devices = hosts * perHost;
    const shape = shapeOf(devices, perHost);
    const { bytes, cells } = layoutOf(shape, hosts - 1);
    const vector = 4 * shape.gradientLength;
    const trees = shape.subtrees[0]?.length ?? 0;
    // The subtrees of each device, the sum, the sums of this host, and other hosts' sums over the
    // ranges of this host's devices.
    const sums = (perHost * trees + 1) * vector + (hosts > 1 ? 3 * perHost * vector : 0);
    const padding = 64 * allToAllNames.length * perHost * devices;
    t.true(bytes <= movedBytes(shape, perHost) + sums + padding, `${bytes} bytes`);
    t.true(cells <= 3 * allToAllNames.length * perHost * devices + 64 * devices, `${cells} cells`);
  });
}

test("spans beyond 4 GiB are kept exactly in cells, and spans that do not fit are refused", (t) => {
  const words = new Int32Array(2);
  const load = (cell: number) => words[cell] ?? 0;
  const store = (cell: number, value: number) => {
    words[cell] = value;
  };
  for (const first of [0, 2 ** 31, 2 ** 32 - 4, 2 ** 32, 3 * 2 ** 32 + 8, inboxBytesMax]) {
    const span = { first, bytes: first };
    storeSpan({ store }, 0, span);
    t.deepEqual(spanAt(load, 0), span);
  }
  t.throws(() => storeSpan({ store }, 0, { first: inboxBytesMax + 4, bytes: 4 }));
  t.throws(() => storeSpan({ store }, 0, { first: 2, bytes: 4 }));
});

test("no byte of a host's memory has two owners, and no cell two meanings", (t) => {
  const exact = shapeOf(24, 8);
  const rounding = { precision: "bfloat16", grain: 64, elements: exact.gradientLength } as const;
  const shape = { ...exact, rounding };
  for (const host of [0, 1, 2]) {
    const layout = layoutOf(shape, host);
    const own = layout.hosts[host] ?? [];
    const extents: Extent[] = [];
    const cells = layout.hostOf.flatMap((_, rank) => [layout.arrived(rank)]);
    for (const name of allToAllNames) {
      const at = layout.channels[name];
      extents.push(...own.map(at.inbox));
      for (const [rank, of] of layout.hostOf.entries()) {
        cells.push(at.closed(rank), ...own.map((to) => at.published(rank, to)));
        const isWithin = insideHost.has(name); // No cells for a bridge.
        if (of === host && !isWithin) cells.push(at.sent(rank));
        if (of !== host) extents.push(...own.map((from) => at.outbox(from, rank)));
        if (of === host || isWithin) continue;
        cells.push(...own.flatMap((from) => pairFrom(at.span(from, rank))));
        if (at.ahead) cells.push(...own.map((from) => at.ahead?.words(from, rank) ?? -1));
      }
    }
    const { buckets, subtree, sum } = layout.gradients;
    const vector = 4 * shape.gradientLength;
    extents.push({ first: sum, bytes: vector });
    for (const rank of own) {
      const trees = grainsOf(shape.subtrees[rank] ?? [], rounding);
      extents.push(...trees.map((_, i) => ({ first: subtree(rank, i), bytes: vector })));
    }
    for (const { partial, partialFolded, published, folded, unpacked, sent } of buckets) {
      for (const [rank, of] of layout.hostOf.entries()) {
        for (const other of layout.hosts.keys()) {
          if ((other === host) === (of === host)) continue;
          extents.push(partial(other, rank));
          cells.push(partialFolded(other, rank));
        }
        extents.push(sent(rank));
        cells.push(published(rank), folded(rank), unpacked(rank));
      }
    }
    const ranges = extents.filter(({ bytes }) => bytes > 0).sort((a, b) => a.first - b.first);
    for (const [i, { first, bytes }] of ranges.entries()) {
      t.true(first + bytes <= (ranges[i + 1]?.first ?? layout.bytes));
    }
    t.is(new Set(cells).size, cells.length);
    t.true(Math.max(...cells) < layout.cells);
  }
});

const pairFrom = (cell: number) => [cell, cell + 1];

test("a route has one number on all hosts, and its bytes land in the inbox of its device", (t) => {
  const shape = shapeOf(24, 8);
  const hosts = [0, 1, 2].map((host) => new Routes(shape, host));
  const seen = new Set<number>();
  for (const [from, routes] of hosts.entries()) {
    for (const { channel, parts } of routes.departures()) {
      for (const { route, to, bytes } of parts(() => 0)) {
        t.false(seen.has(route), routes.whatOf(route));
        seen.add(route);
        for (const other of to) {
          const arrival = hosts[other]?.arrival(route, from);
          t.is(arrival?.channel, channel);
          t.true(bytes <= (arrival?.region.bytes ?? -1));
        }
        const third = [0, 1, 2].find((other) => other !== from && !to.includes(other));
        if (third !== undefined) t.is(hosts[third]?.arrival(route, from), undefined);
      }
    }
  }
});

test("the routes that a bridge checks in a round grow only with its own host's devices", (t) => {
  const [devices, perHost] = [devicesMax, 8];
  const departures = new Routes(shapeOf(devices, perHost), 0).departures();
  const across = allToAllNames.filter((name) => !insideHost.has(name)).length;
  // Routes of each all-to-all: one for the parts of each own device, one for releases of inboxes.
  const own = departures.filter(({ channel }) => channel !== "gradients");
  t.is(own.length, (across + 2) * (perHost + 1) + 1);
});
