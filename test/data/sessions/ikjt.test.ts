// The IKJT (inverse keyed jagged tensor): its construction; it represents exactly the lists of the
// plain batch.

import test from "ava";
import {
  distinctIn,
  groupAxis,
  IkjtMaker,
  type IkjtMemory,
} from "../../../src/data/sessions/ikjt.ts";
import { dedupeFactor, proposeGroups, RepeatCounter } from "../../../src/data/sessions/repeats.ts";
import { RandomStream } from "../../../src/ports/random.ts";

/** Ids by feature, then by sample. */
type Lists = readonly (readonly (readonly number[])[])[];

const shapeOf = (features: number, wide = false, weighted = false) => ({
  features,
  wide: new Array<boolean>(features).fill(wide),
  weighted: new Array<boolean>(features).fill(weighted),
});

function batchOf(lists: Lists, groups: number): IkjtMemory & { inverse: Int32Array } {
  const samples = lists[0]?.length ?? 0;
  const ids = Int32Array.from(lists.flat(2));
  return {
    lengths: Int32Array.from(lists.flat(), (list) => list.length),
    ids,
    highs: ids.map((id) => id >> 3),
    weights: Float32Array.from(ids, (id) => id / 8),
    inverse: new Int32Array(groups * samples),
  };
}

/** The plain lists that an IKJT represents. */
function expanded(
  batch: IkjtMemory & { inverse: Int32Array },
  groups: readonly (readonly number[])[],
  bounds: Int32Array,
): number[][][] {
  const samples = bounds.at(-1) ?? 0;
  const features = batch.lengths.length / samples;
  let at = 0;
  return Array.from({ length: features }, (_, feature) => {
    const kept = Array.from({ length: samples }, (_, sample) => {
      const length = batch.lengths[feature * samples + sample] ?? 0;
      at += length;
      return [...batch.ids.subarray(at - length, at)];
    });
    const group = groups.findIndex((own) => own.includes(feature));
    if (group < 0) return kept;
    const inverse = batch.inverse.subarray(group * samples, (group + 1) * samples);
    const places = groupAxis(bounds, distinctIn(inverse, bounds)).runs.flatMap(({ first, count }) =>
      Array.from({ length: count }, (_, i) => first + i),
    );
    return Array.from(inverse, (row) => kept[places[row] ?? -1] ?? []);
  });
}

test("the paper's example: one distinct list for three samples that agree", (t) => {
  const lists = [
    [[1, 2], [1, 2], [5], [1, 2]],
    [[7], [7], [8], [7]],
  ];
  const batch = batchOf(lists, 1);
  const left = new IkjtMaker([[0, 1]], shapeOf(2)).make(batch, Int32Array.of(0, 4));
  t.deepEqual([...batch.inverse], [0, 0, 1, 0]);
  t.deepEqual([...batch.ids.subarray(0, left)], [1, 2, 5, 7, 8]);
  t.deepEqual([...batch.lengths], [2, 1, 0, 0, 1, 1, 0, 0]);
});

test("a group has one more distinct list where any of its features differs", (t) => {
  const lists = [
    [[1, 2], [1, 2], [5], [1, 2]],
    [[7], [7], [8], [9]],
  ];
  const batch = batchOf(lists, 1);
  const maker = new IkjtMaker([[0, 1]], shapeOf(2));
  maker.make(batch, Int32Array.of(0, 4));
  t.deepEqual([...batch.inverse], [0, 0, 1, 2]);
  t.like(maker.counts[0], { lists: 4, distinctLists: 3, ids: 11, distinctIds: 8 });
});

test("lists are deduplicated within a slice, and none is shared beyond it", (t) => {
  const lists = [[[1], [1], [1], [1]]];
  const batch = batchOf(lists, 1);
  const bounds = Int32Array.of(0, 2, 4);
  const left = new IkjtMaker([[0]], shapeOf(1)).make(batch, bounds);
  t.is(left, 2);
  t.deepEqual([...batch.inverse], [0, 0, 1, 1]);
  t.deepEqual([...batch.lengths], [1, 0, 1, 0]);
});

test("lists that differ in upper halves or weights are distinct", (t) => {
  for (const part of ["highs", "weights"] as const) {
    const batch = batchOf([[[1], [1], [1]]], 1);
    const own = batch[part];
    if (own !== undefined) own[1] = 3;
    const shape = shapeOf(1, part === "highs", part === "weights");
    new IkjtMaker([[0]], shape).make(batch, Int32Array.of(0, 3));
    t.deepEqual([...batch.inverse], [0, 1, 0], part);
  }
});

test("any plain batch is recovered from its IKJT", (t) => {
  const stream = new RandomStream(3, 4, 5);
  for (let round = 0; round < 300; round++) {
    const [samples, features, slices] = [
      1 + stream.below(20),
      1 + stream.below(5),
      1 + stream.below(4),
    ];
    const kinds = 1 + stream.below(6); // One kind: all lists equal; many: nearly all distinct.
    const lists = Array.from({ length: features }, () =>
      Array.from({ length: samples }, () => {
        const kind = stream.below(kinds * 4);
        return Array.from({ length: kind % 4 }, (_, i) => kind + i);
      }),
    );
    const groups: number[][] = [];
    for (let feature = 0; feature < features; feature++) {
      const at = stream.below(3);
      if (at === 0) groups.push([feature]);
      else if (at === 1 && groups.length > 0) groups.at(-1)?.push(feature);
    }
    const batch = batchOf(lists, groups.length);
    const bounds = Int32Array.from({ length: slices + 1 }, (_, i) =>
      Math.floor((i * samples) / slices),
    );
    const left = new IkjtMaker(groups, shapeOf(features)).make(batch, bounds);
    t.deepEqual(expanded({ ...batch, ids: batch.ids.subarray(0, left) }, groups, bounds), lists);
    for (const [group, own] of groups.entries()) {
      for (let slice = 0; slice < slices; slice++) {
        const [first = 0, end = 0] = [bounds[slice], bounds[slice + 1]];
        const texts = Array.from({ length: end - first }, (_, i) =>
          JSON.stringify(own.map((feature) => lists[feature]?.[first + i])),
        );
        const rows = batch.inverse.subarray(group * samples + first, group * samples + end);
        t.is(new Set(rows).size, new Set(texts).size);
      }
    }
  }
});

test("features that change together are proposed as one group, unrepeated ones as none", (t) => {
  const samples = 400;
  const stream = new RandomStream(6, 7, 8);
  const user: number[][] = [];
  const other: number[][] = [];
  const item: number[][] = [];
  let [a, b] = [0, 0];
  for (let i = 0; i < samples; i++) {
    if (stream.below(5) === 0) a++;
    if (stream.below(4) === 0) b++;
    user.push([a, a + 1]);
    other.push([b]);
    item.push([i]);
  }
  const lists = [user, item, user.map(([id = 0]) => [id * 3]), other];
  const shape = shapeOf(4);
  const repeats = new RepeatCounter(shape);
  repeats.count(batchOf(lists, 0), Int32Array.of(0, samples / 2, samples));
  t.deepEqual(proposeGroups(repeats, 1.5), [[0, 2], [3]]);
  t.deepEqual(
    proposeGroups(repeats, 4.5),
    [[0, 2]].filter(() => repeats.repeatedShare(0) > 7 / 9),
  );
  t.is(repeats.repeatedShare(1), 0);
  t.is(dedupeFactor(0), 1);
  t.is(dedupeFactor(0.75), 4);
});
