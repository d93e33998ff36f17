import test, { type ExecutionContext } from "ava";
import fc from "fast-check";
import { mix32 } from "../../src/data/murmur-hash.ts";
import {
  BagMemory,
  bagWords,
  featureStarts,
  idFrameBytes,
  writeIdFrame,
} from "../../src/embedding/bags.ts";
import { FrameCorruptError, IdOutOfRangeError } from "../../src/errors.ts";

const tablesThat = (ids: "reject" | "clamp" | "hash") => [
  { name: "user", rows: 10, ids, idBits: 32 as const, feature: 4 },
  { name: "item", rows: 5, ids, idBits: 32 as const, feature: 7 },
];
const tables = tablesThat("reject");

/** Bags as [feature][sample][ids], on one device. */
type Nested = readonly (readonly (readonly number[])[])[];

function frameOf(bags: Nested, features = bags.map((_, feature) => feature)) {
  const samples = bags[0]?.length ?? 0;
  const lengths = Int32Array.from(bags.flatMap((feature) => feature.map((ids) => ids.length)));
  const ids = Int32Array.from(bags.flat(2));
  const local = { samples, lengths, ids };
  const idsMax = features.map((feature) =>
    Math.max(0, ...(bags[feature] ?? []).map((b) => b.length)),
  );
  const ints = new Int32Array(idFrameBytes(samples, idsMax) / 4);
  const starts = featureStarts(local, bags.length);
  const held = features.map((feature) => ({ feature, idBits: 32 as const }));
  writeIdFrame(ints, local, held, starts, 17);
  return { ints, samples };
}

const good: Nested = [
  [[1, 2], [], [9]],
  [[4], [0, 0], [3]],
];

test("bags come together from all senders, table by table, in the order of the samples", (t) => {
  const first = frameOf(good);
  const second = frameOf([[[5]], [[]]]);
  const bags = new BagMemory().gather([first, second], tables);
  t.is(first.ints[0], 17);
  t.is(bags.samples, 4);
  t.is(bags.tables, 2);
  t.deepEqual([...bags.ids], [1, 2, 9, 5, 4, 0, 0, 3]);
  t.deepEqual([...bags.offsets], [0, 2, 2, 3, 4, 5, 7, 8, 8]);
});

test("any bags on any number of devices arrive as they were, and memory is used again", (t) => {
  const memory = new BagMemory();
  const bag = (rows: number) => fc.array(fc.nat(rows - 1), { maxLength: 4 });
  const sample = fc.tuple(bag(10), bag(5));
  const devices = fc.array(fc.array(sample, { maxLength: 5 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(devices, (all) => {
      const frames = all.map((samples) =>
        frameOf([samples.map(([user]) => user), samples.map(([, item]) => item)]),
      );
      const bags = memory.gather(frames, tables);
      const flat = all.flat();
      const expected = [...flat.map(([user]) => user), ...flat.map(([, item]) => item)];
      const actual = expected.map((_, i) => [
        ...bags.ids.subarray(bags.offsets[i], bags.offsets[i + 1]),
      ]);
      t.deepEqual(actual, expected);
    }),
  );
});

test("a frame carries only the features that its receiver holds", (t) => {
  const bags = new BagMemory().gather([frameOf(good, [1])], tables.slice(1));
  t.deepEqual([...bags.ids], [4, 0, 0, 3]);
});

for (const id of [5, -1, 2 ** 31 - 1]) {
  test(`id ${id} outside its table is refused with the table and the sample of the batch`, (t) => {
    const second = frameOf([
      [[1], [2]],
      [[], [0, id]],
    ]);
    const gather = (firstSample: number) => () =>
      new BagMemory().gather([frameOf(good), second], tables, firstSample);
    const where = "Expected ids of table `item` (feature 7) to lie in 0..4";
    const error = t.throws(gather(0), { instanceOf: IdOutOfRangeError });
    t.true(error.message.startsWith(`${where}, got ${id} in sample 4 of the batch`));
    t.regex(t.throws(gather(100)).message, /in sample 104 of the batch/);
  });
}

test("ids are clamped to the nearest row, or hashed, where the table says so, and counted", (t) => {
  const frame = () => frameOf([[[1]], [[5, 1, -3]]]);
  const clamped = new BagMemory();
  t.deepEqual([...clamped.gather([frame()], tablesThat("clamp")).ids], [1, 4, 1, 0]);
  t.deepEqual([...clamped.repaired], [["item", 2]]);
  clamped.gather([frame()], tablesThat("clamp"));
  t.is(clamped.repaired.get("item"), 4);
  const hashed = new BagMemory().gather([frame()], tablesThat("hash"));
  t.deepEqual([...hashed.ids], [1, mix32(5) % 5, 1, mix32(-3) % 5]);
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
    t.throws(() => new BagMemory().gather([frame], tables), { instanceOf: FrameCorruptError });
  });
}

test("a frame cut short is refused", (t) => {
  const { ints, samples } = frameOf(good);
  const frame = { ints: ints.subarray(0, 9), samples };
  t.throws(() => new BagMemory().gather([frame], tables), { instanceOf: FrameCorruptError });
});

for (const idBits of [32, 64] as const) {
  const title = "weights travel with the ids of the tables that have them; the others count 1";
  test(`${title}: ids of ${idBits} bits`, (t) => weightsTravel(t, idBits));
}

function weightsTravel(t: ExecutionContext, idBits: 32 | 64): void {
  const mixed = tables.map((table, i) => ({ ...table, isWeighted: i === 1, idBits }));
  const frame = (bags: Nested, weights: readonly number[]) => {
    const samples = bags[0]?.length ?? 0;
    const lengths = Int32Array.from(bags.flatMap((feature) => feature.map((ids) => ids.length)));
    const ids = Int32Array.from(bags.flat(2));
    const local = { samples, lengths, ids, highs: new Int32Array(ids.length) };
    const wordsMax = mixed.map((table) => bagWords(3, table));
    const ints = new Int32Array(idFrameBytes(samples, wordsMax) / 4);
    const all = { ...local, weights: Float32Array.from(weights) };
    const held = mixed.map((table, feature) => ({ ...table, feature }));
    writeIdFrame(ints, all, held, featureStarts(local, 2), 17);
    return { ints, samples };
  };
  const memory = new BagMemory();
  const frames = [frame(good, [9, 9, 9, 0.5, -2, 3, 4]), frame([[[5, 6]], [[1, 2]]], [9, 9, 7, 8])];
  const bags = memory.gather(frames, mixed);
  t.deepEqual([...bags.ids], [1, 2, 9, 5, 6, 4, 0, 0, 3, 1, 2]);
  t.deepEqual([...(bags.weights ?? [])], [1, 1, 1, 1, 1, 0.5, -2, 3, 4, 7, 8]);
  t.is(memory.gather([frameOf(good)], tables).weights, undefined);
  // A frame that ends among its weights.
  const ints = frames[0]?.ints ?? new Int32Array(0);
  const short = { ints: ints.subarray(0, 2 + 6 + 7 * (idBits / 32) + 3), samples: 3 };
  t.throws(() => memory.gather([short], mixed), { instanceOf: FrameCorruptError });
}

test("a frame of weights or upper halves that are not there is not written", (t) => {
  t.throws(() => frameOfOne({ isWeighted: true, idBits: 32 }), { message: /^weights for a/ });
  t.throws(() => frameOfOne({ idBits: 64 }), { message: /^upper halves for a wide feature/ });
});

function frameOfOne(table: { isWeighted?: boolean; idBits: 32 | 64 }): void {
  const local = { samples: 1, lengths: Int32Array.of(1), ids: Int32Array.of(1) };
  const held = [{ feature: 0, ...table }];
  writeIdFrame(new Int32Array(9), local, held, Int32Array.of(0, 1), 0);
}
