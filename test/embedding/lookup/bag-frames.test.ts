// Frames of bags: the ids that a shard receives for its rows, and how it reads received frames.

import test from "ava";
import {
  BagMemory,
  type BagShard,
  bagFrameBytes,
  writeBagFrame,
} from "../../../src/embedding/lookup/bag-frames.ts";
import { LocalRows } from "../../../src/embedding/lookup/ids-to-rows.ts";
import { FrameCorruptError } from "../../../src/errors/errors.ts";
import { fc } from "../../helpers/properties.ts";

const tables = [
  { name: "user", rows: 10, ids: "reject" as const, idBits: 32 as const },
  { name: "item", rows: 5, ids: "reject" as const, idBits: 32 as const },
];

/** A shard with all rows of a table. */
function whole(table: number, isWeighted = false): BagShard {
  return { lookup: table, firstRow: 0, rows: tables[table]?.rows ?? 0, isWhole: true, isWeighted };
}

const shards = [whole(0), whole(1)];

/** Bags as [feature][sample][ids], on one device. */
type Nested = readonly (readonly (readonly number[])[])[];

function frameOf(bags: Nested, held: readonly BagShard[] = shards, weights?: readonly number[]) {
  const samples = bags[0]?.length ?? 0;
  const lengths = Int32Array.from(bags.flatMap((feature) => feature.map((ids) => ids.length)));
  const ids = Int32Array.from(bags.flat(2));
  const idsMax = held.map(({ lookup }) =>
    Math.max(0, ...(bags[lookup] ?? []).map((b) => b.length)),
  );
  const local = {
    samples,
    lengths,
    ids,
    weights: weights === undefined ? undefined : Float32Array.from(weights),
  };
  const ints = new Int32Array(
    bagFrameBytes(
      samples,
      held,
      idsMax.map((most) => samples * most),
    ) / 4,
  );
  const bytes = writeBagFrame(ints, new LocalRows().take(local, tables, 0), held, 17);
  return { ints, samples, bytes };
}

const good: Nested = [
  [[1, 2], [], [9]],
  [[4], [0, 0], [3]],
];

test("bags of all senders are gathered table by table, in the order of the samples", (t) => {
  const first = frameOf(good);
  const second = frameOf([[[5]], [[]]]);
  const bags = new BagMemory().gather([first, second], shards);
  t.is(first.ints[0], 17);
  t.is(bags.samples, 4);
  t.is(bags.tables, 2);
  t.deepEqual([...bags.ids], [1, 2, 9, 5, 4, 0, 0, 3]);
  t.deepEqual([...bags.offsets], [0, 2, 2, 3, 4, 5, 7, 8, 8]);
});

test("any bags on any number of devices arrive unchanged, and memory is reused", (t) => {
  const memory = new BagMemory();
  const bag = (rows: number) => fc.array(fc.nat(rows - 1), { maxLength: 4 });
  const sample = fc.tuple(bag(10), bag(5));
  const devices = fc.array(fc.array(sample, { maxLength: 5 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(devices, (all) => {
      const frames = all.map((samples) =>
        frameOf([samples.map(([user]) => user), samples.map(([, item]) => item)]),
      );
      const bags = memory.gather(frames, shards);
      const flat = all.flat();
      const expected = [...flat.map(([user]) => user), ...flat.map(([, item]) => item)];
      const actual = expected.map((_, i) => [
        ...bags.ids.subarray(bags.offsets[i], bags.offsets[i + 1]),
      ]);
      t.deepEqual(actual, expected);
    }),
  );
});

test("a frame has only the features whose rows its receiver has", (t) => {
  const bags = new BagMemory().gather([frameOf(good, [whole(1)])], [whole(1)]);
  t.deepEqual([...bags.ids], [4, 0, 0, 3]);
});

test("each bag is split among shards by rows, numbered from the shard's first row", (t) => {
  const bag = fc.array(fc.nat(9), { maxLength: 5 });
  const cut = fc.integer({ min: 0, max: 10 });
  fc.assert(
    fc.property(fc.array(bag, { maxLength: 6 }), cut, fc.boolean(), (users, at, isWeighted) => {
      const items = users.map(() => []);
      const weights = users.flat().map((_, i) => i + 0.5);
      const parts = [
        { ...whole(0, isWeighted), rows: at, isWhole: false },
        { ...whole(0, isWeighted), firstRow: at, rows: 10 - at, isWhole: false },
      ];
      for (const part of parts) {
        const frame = frameOf([users, items], [part], isWeighted ? weights : undefined);
        const bags = new BagMemory().gather([frame], [part]);
        const isIn = (row: number) => row >= part.firstRow && row < part.firstRow + part.rows;
        const expected = users.map((rows) => rows.filter(isIn));
        const actual = users.map((_, i) => {
          const rows = [...bags.ids.subarray(bags.offsets[i], bags.offsets[i + 1])];
          return rows.map((row) => Number(row) + part.firstRow);
        });
        t.deepEqual(actual, expected);
        const kept = weights.filter((_, i) => isIn(users.flat()[i] ?? -1));
        t.deepEqual([...(bags.weights ?? [])], isWeighted ? kept : []);
        const words = 2 + users.length + kept.length * (isWeighted ? 2 : 1);
        t.is(frame.bytes, 4 * words);
      }
    }),
  );
});

test("a row that the shard does not have is refused", (t) => {
  const frame = frameOf(good, [whole(0)]);
  const part = { ...whole(0), firstRow: 2, rows: 8 };
  t.throws(() => new BagMemory().gather([frame], [part]), {
    instanceOf: FrameCorruptError,
    message: /row 1 for a shard that has 2\.\.9/,
  });
});

const damages: Readonly<Record<string, (ints: Int32Array) => void>> = {
  "a bag of negative length": (ints) => ints.fill(-3, 2, 3),
  "lengths that say more than there is": (ints) => ints.fill(5, 2, 3),
  "lengths that say less than there is": (ints) => ints.fill(0, 7, 8),
  "a count beyond the frame": (ints) => ints.fill(2 ** 30, 1, 2),
  "a negative count": (ints) => ints.fill(-1, 1, 2),
  "a length beyond all memory": (ints) => ints.fill(2 ** 31 - 1, 2, 3),
};

for (const [what, damage] of Object.entries(damages)) {
  test(`a frame with ${what} is refused`, (t) => {
    const frame = frameOf(good);
    damage(frame.ints);
    t.throws(() => new BagMemory().gather([frame], shards), { instanceOf: FrameCorruptError });
  });
}

test("a truncated frame is refused", (t) => {
  const { ints, samples } = frameOf(good);
  const frame = { ints: ints.subarray(0, 9), samples };
  t.throws(() => new BagMemory().gather([frame], shards), { instanceOf: FrameCorruptError });
});

test("weights are sent with the rows of weighted tables; others count as 1", (t) => {
  const mixed = [whole(0), whole(1, true)];
  const memory = new BagMemory();
  const frames = [
    frameOf(good, mixed, [9, 9, 9, 0.5, -2, 3, 4]),
    frameOf([[[5, 6]], [[1, 2]]], mixed, [9, 9, 7, 8]),
  ];
  const bags = memory.gather(frames, mixed);
  t.deepEqual([...bags.ids], [1, 2, 9, 5, 6, 4, 0, 0, 3, 1, 2]);
  t.deepEqual([...(bags.weights ?? [])], [1, 1, 1, 1, 1, 0.5, -2, 3, 4, 7, 8]);
  t.is(memory.gather([frameOf(good)], shards).weights, undefined);
  // A frame truncated within its weights.
  const ints = frames[0]?.ints ?? new Int32Array(0);
  const short = { ints: ints.subarray(0, 2 + 6 + 7 + 3), samples: 3 };
  t.throws(() => memory.gather([short], mixed), { instanceOf: FrameCorruptError });
});
