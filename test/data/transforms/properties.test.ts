// Transforms against plain lists and bigints, on random columns; transforms of whole columns give
// the same bits with the addon and without.

import test from "ava";
import {
  hashArguments,
  referenceColumns,
  wholeColumns,
} from "../../../src/data/transforms/whole-columns.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { out, type Plain, run } from "./run-transforms.ts";

const mask = 2n ** 64n - 1n;
const signed = (value: bigint) => BigInt.asIntN(64, value);
const modulo = (value: bigint, by: bigint) => ((value % by) + by) % by;

/** Thomas Wang's 64-bit mix, as in folly. */
function twang(id: bigint): bigint {
  let k = id & mask;
  k = (~k + (k << 21n)) & mask;
  k ^= k >> 24n;
  k = (k * 265n) & mask;
  k ^= k >> 14n;
  k = (k * 21n) & mask;
  k ^= k >> 28n;
  return (k + (k << 31n)) & mask;
}

function combine(upper: bigint, lower: bigint): bigint {
  const by = 0x9ddf_ea08_eb38_2d69n;
  let a = (((lower ^ upper) & mask) * by) & mask;
  a ^= a >> 47n;
  let b = ((upper ^ a) * by) & mask;
  b ^= b >> 47n;
  return (b * by) & mask;
}

const sigrid = (id: bigint, salt: bigint, max: number) =>
  modulo(signed(combine(salt & mask, twang(id))), BigInt(max));

const stream = new RandomStream(21, 1, 1);
const edges = [0n, 1n, -1n, 2n ** 31n, -(2n ** 31n), 2n ** 32n, 2n ** 63n - 1n, -(2n ** 63n)];
const drawnId = () =>
  signed((BigInt(stream.below(2 ** 32)) << 32n) | BigInt(stream.below(2 ** 32)));
const ids = [...edges, ...Array.from({ length: 500 }, drawnId)];
/** Random lists of ids, many of which are equal. */
const lists = (rows: number): bigint[][] =>
  Array.from({ length: rows }, () =>
    Array.from({ length: stream.below(8) }, () => ids[stream.below(10)] ?? 0n),
  );
const wrapped = (values: readonly bigint[]) => values.map((value) => [value]);

test("sigridHash and positiveModulus of any id, salt and modulus", (t) => {
  const salts = [0n, 5n, -1n, 2n ** 63n - 1n, -(2n ** 63n), drawnId()];
  const moduli = [
    1,
    2,
    100,
    2 ** 20,
    2 ** 31 - 1,
    2 ** 32,
    2 ** 36,
    2 ** 36 + 1,
    2 ** 48 - 59,
    2 ** 48,
  ];
  for (const [i, max] of moduli.entries()) {
    const salt = salts[i % salts.length] ?? 0n;
    t.deepEqual(
      out({ op: "sigridHash", salt: String(salt), max }, { x: ids }),
      wrapped(ids.map((id) => sigrid(id, salt, max))),
      `${max}`,
    );
    t.deepEqual(
      out({ op: "positiveModulus", modulus: max }, { x: ids }),
      wrapped(ids.map((id) => modulo(id, BigInt(max)))),
      `${max}`,
    );
  }
});

test("nGram hashes each window of ids", (t) => {
  const x = lists(60);
  for (const n of [1, 2, 3, 5]) {
    const wanted = x.map((list) =>
      list.slice(0, Math.max(list.length - n + 1, 0)).map((_, first) => {
        const [head = 0n, ...rest] = list.slice(first, first + n).map(twang);
        return sigrid(rest.reduce(combine, head), 3n, 1000);
      }),
    );
    t.deepEqual(out({ op: "nGram", n, salt: 3, max: 1000 }, { x }), wanted);
  }
});

test("cartesian hashes each pair, second list fastest, and keeps the first `max` pairs", (t) => {
  const [x, y] = [lists(60), lists(60)];
  for (const pairsMax of [65_535, 5, 1]) {
    const wanted = x.map((list, row) => {
      const pairs = list.flatMap((a) => (y[row] ?? []).map((b) => combine(twang(a), twang(b))));
      return pairs.slice(0, pairsMax).map((pair) => sigrid(pair, 9n, 777));
    });
    t.deepEqual(out({ op: "cartesian", salt: 9, max: 777, pairsMax }, { x, y }), wanted);
  }
});

test("enumerate distinguishes an id by its position, and is never negative", (t) => {
  const x = lists(60);
  const wanted = x.map((list) =>
    list.map((id, place) => BigInt.asUintN(63, combine(BigInt(place), twang(id)))),
  );
  t.deepEqual(out({ op: "enumerate" }, { x }), wanted);
});

const countsOf = (list: readonly bigint[]) => {
  const counts = new Map<bigint, number>();
  for (const id of list) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
};

test("overlap scores of two lists follow from their counts", (t) => {
  const [x, y] = [lists(80), lists(80)];
  const rows = x.map((list, row) => [countsOf(list), countsOf(y[row] ?? [])] as const);
  const over = (term: (a: number, b: number) => number) =>
    rows.map(([a, b]) => [...a].reduce((sum, [id, count]) => sum + term(count, b.get(id) ?? 0), 0));
  const overlap = over((a, b) => Math.min(a, b));
  t.deepEqual(out({ op: "overlapCount" }, { x, y }), overlap);
  t.deepEqual(out({ op: "hasOverlap" }, { x, y }), overlap.map(Math.sign));
  t.deepEqual(
    out({ op: "maxCount" }, { x, y }),
    over((a, b) => (b > 0 ? Math.max(a, b) : 0)),
  );
  t.deepEqual(
    out({ op: "scoreSum" }, { x, y }),
    over((_a, b) => b),
  );
  t.deepEqual(out({ op: "scoreMin" }, { x, y }), overlap.map(Math.sign));
  t.deepEqual(
    out({ op: "jaccard" }, { x, y }),
    overlap.map((both, row) => {
      const all = (x[row]?.length ?? 0) + (y[row]?.length ?? 0) - both;
      return all === 0 ? 0 : both / all;
    }),
  );
  const full = rows.map(([a, b], row) => [a, b, row] as const).filter(([a, b]) => a.size * b.size);
  const norm = (counts: ReadonlyMap<bigint, number>) =>
    Math.sqrt([...counts.values()].reduce((sum, count) => sum + count * count, 0));
  const near = out(
    { op: "cosine" },
    { x: full.map(([, , row]) => x[row] ?? []), y: full.map(([, , row]) => y[row] ?? []) },
  );
  const dots = over((a, b) => a * b);
  t.deepEqual(
    near,
    full.map(([a, b, row]) => (dots[row] ?? 0) / (norm(a) * norm(b))),
  );
});

test("idListTransform keeps the ids of both lists, in the order of the first", (t) => {
  const [x, y] = [lists(80), lists(80)];
  const wanted = x.map((list, row) => {
    const left = [...(y[row] ?? [])];
    return list.filter((id) => {
      const at = left.indexOf(id);
      if (at >= 0) left.splice(at, 1);
      return at >= 0;
    });
  });
  t.deepEqual(out({ op: "idListTransform" }, { x, y }), wanted);
});

test("firstX truncates lists of ids, and their weights", (t) => {
  const x = lists(40);
  t.deepEqual(
    out({ op: "firstX", x: 3 }, { x }),
    x.map((list) => list.slice(0, 3)),
  );
  const weighted = run(
    [
      {
        op: "firstX",
        input: { column: "x", separator: "|", weightSeparator: ":" },
        x: 1,
        output: "f",
      },
      { op: "sigridHash", input: "f", max: 2 ** 40, output: "h" },
      { op: "fill", input: "h", value: 7, output: "full" },
    ],
    { x: [[5n, 6n], [], [7n]] },
    { weights: { x: [0.5, 2, 4] } },
  );
  t.deepEqual(weighted.columns.f, [[5n], [], [7n]]);
  t.deepEqual(weighted.weights, { f: [0.5, 4], h: [0.5, 4], full: [0.5, 1, 4] });
  t.deepEqual(weighted.columns.full?.[1], [7n]);
});

test("numeric ops: clamp, log, logit, scale, fill, boxCox, and missing values", (t) => {
  const x = [-2, -0.5, 0, 0.25, 1, 7.5, 1e9, Number.NaN];
  const each = (op: object, wanted: (value: number) => number) => {
    t.deepEqual(out(op, { x }), x.map(wanted));
  };
  each({ op: "clamp", min: -1, max: 5 }, (v) => Math.min(Math.max(v, -1), 5));
  each({ op: "log", plus: 3 }, (v) => Math.log(v + 3));
  each({ op: "scale", minus: 2, over: 4 }, (v) => (v - 2) / 4);
  each({ op: "fill", value: 3 }, (v) => (Number.isNaN(v) ? 3 : v));
  each({ op: "boxCox", lambda1: 0, lambda2: 1 }, (v) => Math.log(Math.max(v + 1, 1e-6)));
  each({ op: "logit", eps: 0.01 }, (v) => {
    const p = Math.min(Math.max(v, 0.01), 0.99);
    return Math.log(p / (1 - p));
  });
  for (const lambda1 of [0.5, 2, -1]) {
    const got = out({ op: "boxCox", lambda1 }, { x }) as number[];
    for (const [i, value] of x.entries()) {
      if (Number.isNaN(value)) t.is(got[i], Number.NaN);
      else {
        const wanted = (Math.max(value, 1e-6) ** lambda1 - 1) / lambda1;
        t.true(Math.abs((got[i] ?? 0) - wanted) <= 1e-13 * Math.abs(wanted), `${value}: ${got[i]}`);
      }
    }
  }
});

test("clamp of ids compares all 64 bits", (t) => {
  const [min, max] = [-5_000_000_000n, 2n ** 52n + 5n];
  const clamp = { op: "clamp", min: Number(min), max: Number(max) };
  // Ids whose high words equal those of the limits: the low words decide, as unsigned numbers.
  const near = [min, max].flatMap((limit) => [-1n, 0n, 1n, 2n ** 31n].map((by) => limit + by));
  const x = { column: "x", separator: "|", weightSeparator: ":" };
  const { columns } = run([{ ...clamp, input: x, output: "c" }], { x: [[...ids, ...near]] });
  const limit = (id: bigint) => (id < min ? min : id > max ? max : id);
  t.deepEqual(columns.c, [[...ids, ...near].map(limit)]);
});

test("onehot is a unit vector; values outside are in its first element", (t) => {
  const onehot = { op: "onehot", input: "x", output: "u", low: -1, high: 3, buckets: 4 };
  const x = [-1.5, -1, -0.01, 0, 1.99, 2, 2.99, 3, Number.NaN];
  const { columns } = run([onehot], { x });
  const rows = x.map((_, row) => [0, 1, 2, 3].findIndex((k) => columns[`u.${k}`]?.[row] === 1));
  t.deepEqual(rows, [0, 0, 0, 1, 2, 3, 3, 0, 0]);
  const sums = x.map((_, row) =>
    [0, 1, 2, 3].reduce((sum, k) => sum + Number(columns[`u.${k}`]?.[row]), 0),
  );
  t.deepEqual(
    sums,
    x.map(() => 1),
  );
});

test("getLocalHour is the hour of day in a time zone, also before 1970", (t) => {
  const at = (text: string) => Date.parse(text) / 1000;
  const x = [at("2024-02-29T23:59:59Z"), at("1969-12-31T23:30:00Z"), at("2024-07-01T00:00:00Z")];
  const hours = (offsetSeconds: number) => out({ op: "getLocalHour", offsetSeconds }, { x });
  t.deepEqual(hours(0), wrapped([23n, 23n, 0n]));
  t.deepEqual(hours(-5 * 3600), wrapped([18n, 18n, 19n]));
  t.deepEqual(hours(19_800), wrapped([5n, 5n, 5n]));
  t.deepEqual(out({ op: "getLocalHour" }, { x: [Number.NaN] }), [[]]);
});

test("hashText is equal for equal texts only", (t) => {
  const x: Plain[] = [["a", "b"], ["a"], [], ["", "ab"]];
  const [one, two, none, three] = out({ op: "hashText" }, { x }) as bigint[][];
  t.is(one?.[0], two?.[0]);
  t.deepEqual(none, []);
  t.is(new Set([...(one ?? []), ...(three ?? [])]).size, 4);
  t.true([...(one ?? []), ...(three ?? [])].every((id) => id >= 0n));
});

test("rows have the same outputs in any batch", (t) => {
  const transforms = [
    { op: "nGram", input: { column: "x", separator: "|" }, output: "grams", n: 2, max: 100 },
    { op: "jaccard", inputs: ["x", "grams"], output: "near" },
    { op: "sampling", rate: 0.5, seed: 2 },
  ];
  const x = lists(50);
  const whole = run(transforms, { x }, { place: 1, firstRow: 100 });
  const [head, tail] = [
    run(transforms, { x: x.slice(0, 17) }, { place: 1, firstRow: 100 }),
    run(transforms, { x: x.slice(17) }, { place: 1, firstRow: 117 }),
  ];
  t.deepEqual(whole.columns.grams, [...(head.columns.grams ?? []), ...(tail.columns.grams ?? [])]);
  t.deepEqual(whole.columns.near, [...(head.columns.near ?? []), ...(tail.columns.near ?? [])]);
  t.deepEqual([...(whole.kept ?? [])], [...(head.kept ?? []), ...(tail.kept ?? [])]);
});

const columns = wholeColumns();
const salts = ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "81985529216486895"];
const maxima = [1, 2, 1000, 500_000, 2 ** 31, 2 ** 32 + 1, 2 ** 36 + 1, 2 ** 48];

function someIds(seed: number, count: number): BigInt64Array {
  const random = new RandomStream(seed, 1);
  return BigInt64Array.from({ length: count }, () => {
    const bits = (BigInt(random.word()) << 32n) | BigInt(random.word());
    return BigInt.asIntN(64, bits) >> BigInt(random.below(64));
  });
}

test("sigridHash and nGram give the same bits for any id, salt and max", (t) => {
  const ids = someIds(1, 600);
  const offsets = Int32Array.from({ length: 201 }, (_, row) => 3 * row);
  for (const salt of salts) {
    for (const max of maxima) {
      const hash = hashArguments({ salt, max });
      const [one, other] = [new BigInt64Array(600), new BigInt64Array(600)];
      columns.sigridHash(one, ids, hash);
      referenceColumns.sigridHash(other, ids, hash);
      t.deepEqual(one, other, `${salt} ${max}`);
      for (const n of [1, 2, 3]) {
        const windows = 4 - n;
        const places = Int32Array.from({ length: 201 }, (_, row) => windows * row);
        const [few, same] = [new BigInt64Array(200 * windows), new BigInt64Array(200 * windows)];
        columns.nGram(few, places, ids, offsets, n, hash);
        referenceColumns.nGram(same, places, ids, offsets, n, hash);
        t.deepEqual(few, same, `${salt} ${max} ${n}`);
      }
    }
  }
});

test("bucketize gives the same bits for any number, repeated borders included", (t) => {
  const random = new RandomStream(2, 1);
  for (const length of [1, 2, 3, 8, 4095]) {
    const borders = Float64Array.from({ length }, () => random.below(length) / 2).sort();
    const odd = [Number.NaN, Infinity, -Infinity, -0, 0, 1e308];
    const drawn = Array.from({ length: 500 }, () => (random.below(2 * length + 4) - 2) / 4);
    const values = Float64Array.from([...odd, ...drawn]);
    const [one, other] = [values, values].map((all) => new BigInt64Array(all.length));
    if (one === undefined || other === undefined) return t.fail();
    columns.bucketize(one, values, borders);
    referenceColumns.bucketize(other, values, borders);
    t.deepEqual(one, other);
  }
});
