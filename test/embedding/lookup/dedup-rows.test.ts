// Distinct rows: the rows that a device requests once, and how their owner reads the request
// frames.

import test from "ava";
import type { BagShard } from "../../../src/embedding/lookup/bag-frames.ts";
import {
  DistinctMemory,
  distinctFrameBytes,
  distinctFrameInts,
  LookupMemory,
  requestedRows,
  writeDistinctFrame,
} from "../../../src/embedding/lookup/dedup-rows.ts";
import { LocalRows } from "../../../src/embedding/lookup/ids-to-rows.ts";
import { FrameCorruptError } from "../../../src/errors/errors.ts";
import { type Subtree, subtreesOf } from "../../../src/kernels/contract/slices.ts";
import { fc } from "../../helpers/properties.ts";

const tables = [
  { name: "user", rows: 10, ids: "reject" as const, idBits: 32 as const },
  { name: "item", rows: 5, ids: "reject" as const, idBits: 32 as const },
];

const shard = (table: number, firstRow: number, rows: number, isWeighted = false): BagShard => {
  return { lookup: table, firstRow, rows, isWhole: rows === tables[table]?.rows, isWeighted };
};

/** The users table as two weighted runs of rows, then the whole items table. */
const shards = [shard(0, 0, 4, true), shard(0, 4, 6, true), shard(1, 0, 5)];

/** Each shard has one lookup. */
const alone = shards.map((one) => ({ ...one, lookups: [one] }));

/** Bags as [sample][feature][ids], of the samples of one slice. */
type Slice = readonly (readonly (readonly number[])[])[];

interface Sender {
  readonly subtrees: readonly Subtree[];
  readonly slices: readonly Slice[];
}

function ask(memory: DistinctMemory, { subtrees, slices }: Sender) {
  const samples = slices.flat();
  const bags = tables.flatMap((_, feature) => samples.map((own) => own[feature] ?? []));
  const ids = Int32Array.from(bags.flat());
  const weights = Float32Array.from(ids, (_, i) => i + 0.5);
  const lengths = Int32Array.from(bags, (own) => own.length);
  const local = { samples: samples.length, lengths, ids, weights };
  const first = subtrees[0]?.first ?? 0;
  const ends = subtrees.map((tree) => {
    return slices.slice(0, tree.first + tree.count - first).flat().length;
  });
  const requested = memory.take(new LocalRows().take(local, tables, 0), alone, ends);
  return { requested, bags, weights, samples: samples.length };
}

function frameOf(requested: ReturnType<typeof ask>["requested"], first = 0, count = shards.length) {
  const rowsMax = shards.map((_, i) => requestedRows(requested, i));
  const room = new Int32Array(distinctFrameBytes(requested.subtrees, rowsMax) / 4 + 3);
  return { ints: room, bytes: writeDistinctFrame(room, requested, first, count) };
}

const sample = fc.tuple(
  fc.array(fc.nat(9), { maxLength: 5 }),
  fc.array(fc.nat(4), { maxLength: 5 }),
);
const slice = fc.array(sample, { maxLength: 4 });
/** Eight slices, divided among any number of devices. */
const senders = fc
  .tuple(fc.array(slice, { minLength: 8, maxLength: 8 }), fc.integer({ min: 1, max: 8 }))
  .map(([slices, devices]) =>
    Array.from({ length: devices }, (_, device): Sender => {
      const first = Math.floor((device * 8) / devices);
      const end = Math.floor(((device + 1) * 8) / devices);
      return { subtrees: subtreesOf(first, end - first), slices: slices.slice(first, end) };
    }),
  );

/** The distinct rows of a shard that `count` slices from `first` look up. */
function distinctIn(
  slices: readonly Slice[],
  { lookup: table, firstRow, rows }: BagShard,
): number[] {
  const all = slices.flat().flatMap((own) => own[table] ?? []);
  const isIn = (row: number) => row >= firstRow && row < firstRow + rows;
  return [...new Set(all.filter(isIn))].sort((a, b) => a - b);
}

test("every bag becomes positions of distinct rows, in its order and with its weights", (t) => {
  const memory = new DistinctMemory();
  fc.assert(
    fc.property(senders, (all) => {
      for (const sender of all) {
        const { requested, bags, weights, samples } = ask(memory, sender);
        let firstRow = 0;
        for (const [i, { lookup: table, firstRow: low, rows, isWeighted }] of shards.entries()) {
          const expected = bags.slice(table * samples, (table + 1) * samples);
          let place = bags.slice(0, table * samples).flat().length;
          const kept = expected.map((ids) =>
            ids.flatMap((row) => {
              const weight = isWeighted ? weights[place] : 1;
              place++;
              return row >= low && row < low + rows ? [[row, weight]] : [];
            }),
          );
          const { offsets = [], ids: places = [], weights: own } = requested.bags[i] ?? {};
          const actual = kept.map((_, b) => {
            const [from = 0, to] = [offsets[b], offsets[b + 1]];
            return Array.from(places.slice(from, to), (id, k) => {
              return [requested.rows[firstRow + id], own?.[from + k] ?? 1];
            });
          });
          t.deepEqual(actual, kept);
          firstRow += requestedRows(requested, i);
        }
      }
    }),
  );
});

test("a shard gets each row once per subtree, placed in the subtree's slice", (t) => {
  const [memory, lookupMemory] = [new DistinctMemory(), new LookupMemory()];
  fc.assert(
    fc.property(senders, (all) => {
      const frames = all.map((sender) => {
        const { ints } = frameOf(ask(memory, sender).requested);
        return { ints, subtrees: sender.subtrees };
      });
      const lookups = lookupMemory.gather(frames, shards, 8);
      for (const [i, own] of shards.entries()) {
        const expected = all.map(({ subtrees, slices }) => {
          const first = subtrees[0]?.first ?? 0;
          return subtrees.map((tree) => {
            const from = tree.first - first;
            return distinctIn(slices.slice(from, from + tree.count), own);
          });
        });
        const { bags, slices, counts } = lookups[i] ?? {};
        const rows = expected.flat(2);
        t.deepEqual(
          [...(bags?.ids ?? [])].map((row) => row + own.firstRow),
          rows,
        );
        t.deepEqual(
          [...(bags?.offsets ?? [])],
          [...rows, 0].map((_, at) => at),
        );
        t.deepEqual(
          counts,
          expected.map((trees) => trees.flat().length),
        );
        const inSlice = new Array<number>(8).fill(0);
        for (const [device, { subtrees }] of all.entries()) {
          for (const [p, { first }] of subtrees.entries()) {
            inSlice[first] = expected[device]?.[p]?.length ?? 0;
          }
        }
        t.deepEqual(
          [...(slices?.bounds ?? [])].slice(1).map((end, s) => end - (slices?.bounds[s] ?? 0)),
          inSlice,
        );
      }
    }),
  );
});

const sender: Sender = {
  subtrees: [{ first: 0, count: 1 }],
  slices: [
    [
      [[3, 3, 7], [4]],
      [[7], []],
    ],
  ],
};

test("a frame has the size of its contents, and can be for some shards alone", (t) => {
  const { requested } = ask(new DistinctMemory(), sender);
  const whole = frameOf(requested);
  t.deepEqual([...whole.ints], [1, 1, 1, 3, 7, 4, 0, 0, 0]);
  t.is(whole.bytes, 4 * 6);
  const part = frameOf(requested, 1, 2);
  t.deepEqual([...part.ints.subarray(0, part.bytes / 4)], [1, 1, 7, 4]);
  t.is(distinctFrameInts({ ...sender, ints: part.ints }, 2), 4);
});

test("an invalid frame is refused", (t) => {
  const gather = (...ints: number[]) => {
    const frame = { ints: Int32Array.from(ints), subtrees: sender.subtrees };
    return new LookupMemory().gather([frame], [shard(0, 4, 6)], 1);
  };
  t.deepEqual([...(gather(2, 4, 9)[0]?.bags.ids ?? [])], [0, 5]);
  for (const [ints, message] of [
    [[3, 4, 9], /3 distinct rows, of 3 numbers/],
    [[-1, 4, 9], /-1 distinct rows/],
    [[], /-1 distinct rows/],
    [[1, 3], /row 3, where it has to lie in 4\.\.9/],
    [[1, 10], /row 10, where it has to lie in 4\.\.9/],
    [[2, 7, 7], /row 7, where it has to lie in 8\.\.9/],
  ] as const) {
    t.throws(() => gather(...ints), { instanceOf: FrameCorruptError, message });
  }
});
