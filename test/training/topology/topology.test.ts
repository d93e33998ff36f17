// The topology of a run: each device's share of samples, space in the exchange, and the slice tree.

import test from "ava";
import { ringSlots } from "../../../src/exchange/batch-ring.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { exchangeShapeOf, partBytesOf } from "../../../src/training/topology/exchange-shape.ts";
import {
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
