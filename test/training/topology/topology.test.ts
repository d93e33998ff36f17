// The topology of a run: each device's share of samples, space in the exchange, and the slice tree.

import test from "ava";
import { ringSlots } from "../../../src/exchange/batch-ring.ts";
import { backwardOrder } from "../../../src/model/graph/network.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { exchangeShapeOf, partBytesOf } from "../../../src/training/topology/exchange-shape.ts";
import {
  exactExchange,
  ringShapeOf,
  samplesMaxOf,
  samplesOf,
  topologyOf,
} from "../../../src/training/topology/topology.ts";
import { fc } from "../../helpers/properties.ts";

const inputs = fc.record({
  tables: fc.array(fc.constantFrom("table-wise" as const, "data-parallel" as const), {
    maxLength: 6,
  }),
  batchSize: fc.integer({ min: 1, max: 200 }),
  devices: fc.integer({ min: 1, max: 8 }),
  idsMax: fc.integer({ min: 0, max: 5 }),
});

function topologyFor(input: {
  tables: readonly ("table-wise" | "data-parallel")[];
  batchSize: number;
  devices: number;
  idsMax: number;
  idsMean?: number;
}) {
  const model = modelOptions.parse({
    kind: "dlrm",
    dense: 2,
    bottom: [4],
    top: [3, 1],
    tables: input.tables.map((sharding, i) => ({ name: `T${i}`, rows: 3 + i, dim: 4, sharding })),
  });
  const idsMax = input.tables.map(() => input.idsMax);
  const idsMean = input.tables.map(() => input.idsMean ?? input.idsMax);
  const { batchSize, devices } = input;
  return topologyOf({ model, batchSize, slices: 8, idsMax, idsMean }, devices);
}

test("devices divide the samples of a batch of any size, within their reserved space", (t) => {
  fc.assert(
    fc.property(inputs, fc.integer({ min: 1, max: 200 }), (input, size) => {
      const topology = topologyFor(input);
      const samples = Math.min(size, input.batchSize);
      const most = samplesMaxOf(topology);
      let next = 0;
      for (let device = 0; device < input.devices; device++) {
        const { first, count } = samplesOf(topology, device, samples);
        t.is(first, next);
        t.true(count <= (most[device] ?? 0));
        next += count;
      }
      t.is(next, samples);
    }),
  );
});

const means = { min: 0, max: 3, noNaN: true };

test("no batch sends more than the exchange has space for", (t) => {
  fc.assert(
    fc.property(
      inputs,
      fc.integer({ min: 1, max: 200 }),
      fc.double(means),
      (input, size, idsMean) => {
        const topology = topologyFor({ ...input, idsMean });
        const bytes = partBytesOf(topology, Math.min(size, input.batchSize));
        const { bytesMax } = exchangeShapeOf(topology);
        for (const channel of [
          "ids",
          "pooled",
          "dPooled",
          "rowSums",
          "losses",
          "scores",
        ] as const) {
          for (let from = 0; from < input.devices; from++) {
            for (let to = 0; to < input.devices; to++) {
              t.true(bytes[channel](from, to) <= bytesMax[channel](from, to), channel);
            }
          }
        }
      },
    ),
  );
});

test("every table is on one device or on all, with all-reduce space for each replica", (t) => {
  fc.assert(
    fc.property(inputs, (input) => {
      const topology = topologyFor(input);
      const held = [...topology.heldBy.flat(), ...topology.replicated];
      const placed = held.map(({ table }) => table).sort((a, b) => a - b);
      t.deepEqual(placed, [...input.tables.keys()]);
      let end = topology.graph.layout.length;
      for (const [i, { table }] of topology.replicated.entries()) {
        t.deepEqual(topology.replicatedAt[i], { gradient: end, counts: end + 4 * (3 + table) });
        end += 5 * (3 + table);
      }
      t.is(topology.gradientLength, end);
      t.deepEqual(
        topology.columnsOf,
        topology.heldBy.map((shards) => 4 * shards.length),
      );
    }),
  );
});

test("the subtrees of all devices form the slice tree", (t) => {
  for (let devices = 1; devices <= 8; devices++) {
    const input = { tables: [], batchSize: 64, devices, idsMax: 1 };
    const { subtrees } = exchangeShapeOf(topologyFor(input));
    let next = 0;
    for (const { first, count } of subtrees.flat()) {
      t.is(first, next);
      t.true(Number.isInteger(Math.log2(count)) && first % count === 0);
      next += count;
    }
    t.is(next, 8);
  }
});

test("the ring has a slot for each device's samples", (t) => {
  const topology = topologyFor({ tables: ["table-wise"], batchSize: 20, devices: 3, idsMax: 2 });
  t.deepEqual(ringShapeOf(topology), {
    devices: 3,
    dense: 2,
    features: 1,
    idsRoom: [10, 16, 16],
    isWeighted: false,
    isWide: false,
    samplesMax: [5, 8, 8],
    slots: ringSlots,
    targets: undefined,
  });
});

test("batches of one size have the same parts, as the same functions", (t) => {
  const topology = topologyFor({ tables: ["table-wise"], batchSize: 16, devices: 2, idsMax: 1 });
  t.is(partBytesOf(topology, 16).pooled, partBytesOf(topology, 16).pooled);
  t.not(partBytesOf(topology, 16).pooled, partBytesOf(topology, 15).pooled);
});

/** The topology of a job with copied rows; its larger dense layers follow the lookups. */
function bucketsOn(hosts: number, perHost: number, dense: "float32" | "bfloat16" = "float32") {
  const model = modelOptions.parse({
    ...{ kind: "dlrm", dense: 64, bottom: [512, 64], top: [4096, 4096, 1] },
    tables: [{ name: "T", rows: 40_000, dim: 64, sharding: "data-parallel" }],
  });
  const devices = hosts * perHost;
  const hostOf = Array.from({ length: devices }, (_, rank) => Math.floor(rank / perHost));
  const exchange = { ...exactExchange, dense };
  return topologyOf(
    { model, batchSize: 2048, slices: 1024, idsMax: [1], exchange },
    devices,
    hostOf,
  );
}

test("buckets hold each element once, and none is ready before the blocks that write it", (t) => {
  const { graph, buckets, readyAfter, gradientLength } = bucketsOn(2, 1);
  const ordered = buckets.toSorted((a, b) => a.first - b.first);
  for (const [i, { first, count }] of ordered.entries()) {
    t.is(first + count, ordered[i + 1]?.first ?? gradientLength);
    t.true(count >= 16 * 1024 && count <= (25 * 2 ** 20) / 4 + 64 * 1024);
  }
  const order = backwardOrder(graph);
  const ofLate = order.filter((node) => graph.nodes[node]?.isEarly === false);
  for (const [at, node] of order.entries()) {
    const unwritten = order.slice(at + 1).flatMap((later) => graph.nodes[later]?.parameters ?? []);
    for (const { first, count } of buckets.slice(0, readyAfter[node])) {
      t.true(first + count <= graph.layout.length, "copied rows are written after all blocks");
      for (const { name } of unwritten) {
        const own = graph.layout.parameters.find((parameter) => parameter.name === name);
        const isApart = own && (own.first >= first + count || own.first + own.length <= first);
        t.true(isApart, `${name} is written after block ${node}`);
      }
    }
  }
  t.true((readyAfter[ofLate.at(-1) ?? 0] ?? 0) >= 2, "layers after lookups come first");
  t.true((readyAfter[order.at(-1) ?? 0] ?? 0) < buckets.length);
});

test("buckets are few: one on one host, and none with small ranges of many devices", (t) => {
  t.is(bucketsOn(1, 8).buckets.length, 1);
  // Copied rows stay in float32, in a bucket of their own.
  t.is(bucketsOn(1, 8, "bfloat16").buckets.length, 2);
  const many = bucketsOn(128, 8, "bfloat16");
  t.true(many.buckets.length <= 16);
  const { elements = 0 } = many.rounding ?? {};
  t.true(elements > 0, "the first elements are rounded");
  t.true(many.buckets.every(({ first, count }) => first >= elements || first + count <= elements));
  for (const { count } of many.buckets) t.true(count >= 1024 * 1024, `${count} elements`);
});
