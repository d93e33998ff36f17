import test from "ava";
import { mix32 } from "../../src/data/murmur-hash.ts";
import { BagMemory, featureStarts, type IdFrame, writeIdFrame } from "../../src/embedding/bags.ts";
import { FrameCorruptError, IdOutOfRangeError } from "../../src/errors.ts";

/** The frame of one sender: `bags[feature][sample]` are its ids. */
function startFrame(bags: readonly (readonly number[])[][]): IdFrame {
  const samples = bags[0]?.length ?? 0;
  const local = {
    samples,
    lengths: Int32Array.from(bags.flatMap((feature) => feature.map((bag) => bag.length))),
    ids: Int32Array.from(bags.flat(2)),
  };
  const ints = new BagMemory().frame(
    samples,
    bags.map(() => 4),
  );
  const features = [...bags.keys()];
  writeIdFrame(ints, local, features, featureStarts(local, bags.length), -1);
  return { ints, samples };
}

function tablesOf(ids: "reject" | "clamp" | "hash") {
  return [
    { name: "user", rows: 10, ids, feature: 4 },
    { name: "item", rows: 5, ids, feature: 7 },
  ];
}

const senders = () => [
  startFrame([
    [[1], [], [2, 3]],
    [[0], [4], []],
  ]),
  startFrame([
    [[], [9]],
    [[5, 1], [-3]],
  ]),
];

test("bags of all senders lie table by table, samples in the order of the senders", (t) => {
  const [first, second] = senders();
  if (first === undefined || second === undefined) return t.fail();
  const tables = tablesOf("reject").map((table) => ({ ...table, rows: 2 ** 31 - 1 }));
  const good = startFrame([
    [[], [9]],
    [[5, 1], [3]],
  ]);
  const bags = new BagMemory().gather([first, good], tables);
  t.deepEqual([...bags.offsets], [0, 1, 1, 3, 3, 4, 5, 6, 6, 8, 9]);
  t.deepEqual([...bags.ids], [1, 2, 3, 9, 0, 4, 5, 1, 3]);
});

test("an id outside its table is refused with the names of table, feature and sample", (t) => {
  const gather = (firstSample: number) => () =>
    new BagMemory().gather(senders(), tablesOf("reject"), firstSample);
  const error = t.throws(gather(0), { instanceOf: IdOutOfRangeError });
  t.regex(error.message, /table `item` \(feature 7\) .* 0\.\.4, got 5 in sample 3 of the batch/);
  t.regex(t.throws(gather(100)).message, /sample 103/);
});

test("ids are clamped to the nearest row, or hashed, where the table says so, and counted", (t) => {
  const clamped = new BagMemory();
  t.deepEqual([...clamped.gather(senders(), tablesOf("clamp")).ids].slice(-3), [4, 1, 0]);
  t.deepEqual([...clamped.repaired], [["item", 2]]);
  clamped.gather(senders(), tablesOf("clamp"));
  t.is(clamped.repaired.get("item"), 4);
  const hashed = [...new BagMemory().gather(senders(), tablesOf("hash")).ids].slice(-3);
  t.deepEqual(hashed, [mix32(5) % 5, 1, mix32(-3) % 5]);
});

test("a frame whose lengths and ids disagree is refused", (t) => {
  const [frame] = senders();
  if (frame === undefined) return t.fail();
  frame.ints[1] = 3;
  const tables = tablesOf("reject");
  t.throws(() => new BagMemory().gather([frame], tables), { instanceOf: FrameCorruptError });
  frame.ints[1] = 5;
  frame.ints[2] = -1;
  t.throws(() => new BagMemory().gather([frame], tables), { instanceOf: FrameCorruptError });
});
