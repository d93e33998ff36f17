// Cases of the kernels' suite: rows as records that move between tiers, rows in cache slots,
// and former values of rows (undo-cases.ts).

import { type Kernels, type Rows, stateWidth } from "../../src/kernels/contract/kernels.ts";
import type { Precision } from "../../src/kernels/contract/precision.ts";
import { recordBytesOf } from "../../src/kernels/contract/records.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { Cases } from "./cases.ts";
import { numbers, random } from "./cases.ts";
import { ruleKinds, ruleOf } from "./scenarios.ts";
import { undo } from "./undo-cases.ts";

const precisions: readonly Precision[] = ["float32", "float16", "bfloat16", "int8"];
const key = [11, 12] as const;

/** Rows of random weights and state, all touched. */
function filled(k: Kernels, stream: RandomStream, spec: Parameters<Kernels["rows"]>[0]): Rows {
  const rows = k.rows(spec);
  k.writeRows(rows, 0, numbers(stream, spec.rows * spec.dim));
  k.write(rows.state, numbers(stream, spec.rows * spec.stateWidth).map(Math.abs));
  rows.touched.fill(1);
  return rows;
}

/** The weights, state and flags of a row. */
function rowOf(k: Kernels, rows: Rows, row: number) {
  const weights = [...k.readRows(rows, row, 1)];
  return { weights, state: [...k.read(k.part(rows.state, row, 1))], touched: rows.touched[row] };
}

/** `count` distinct numbers below `end`, in random order. */
function some(stream: RandomStream, count: number, end: number): Int32Array {
  const all = Array.from({ length: end }, (_, i) => i);
  for (let i = end - 1; i > 0; i--) {
    const other = stream.below(i + 1);
    [all[i], all[other]] = [all[other] ?? 0, all[i] ?? 0];
  }
  return Int32Array.from(all.slice(0, count));
}

export const records: Cases = {
  ...undo,

  "a record is the stored weights, padded, and then the state": (t, k) => {
    const plain = { pooling: "sum", rowBlocks: 1, stateWidth: 1 } as const;
    const bytes = (precision: Precision) => {
      const rows = k.rows({ rows: 2, dim: 3, ...plain, precision });
      k.writeRows(rows, 1, Float32Array.of(1, 0.5, -2));
      k.write(rows.state, Float32Array.of(0, 7));
      const out = new Uint8Array(recordBytesOf({ dim: 3, precision }, 1)).fill(9);
      k.gatherRecords(out, rows, Int32Array.of(1));
      return out;
    };
    const floats = (values: readonly number[]) => [
      ...new Uint8Array(Float32Array.from(values).buffer),
    ];
    t.deepEqual([...bytes("float32")], floats([1, 0.5, -2, 7]));
    const half = [0x00, 0x3c, 0x00, 0x38, 0x00, 0xc0, 0, 0];
    t.deepEqual([...bytes("float16")], [...half, ...floats([7])]);
    // 2 is 64 * 2^-5: the smallest exponent with which 127 steps hold 2 is that of 1 <= 2/2 < 2.
    t.deepEqual([...bytes("int8")], [32, 16, 256 - 64, 256 - 5, ...floats([7])]);
    t.is(recordBytesOf({ dim: 33, precision: "int8" }, 2), 36 + 8);
  },

  "rows come back from records with their bits, wherever they go": (t, k) => {
    for (let seed = 1; seed <= 16; seed++) {
      const stream = new RandomStream(seed, 9);
      const [count, dim] = [1 + stream.below(40), 1 + stream.below(150)];
      const precision = precisions[seed % 4] ?? "float32";
      const width = [0, 1, dim, dim + 1][stream.below(4)] ?? 0;
      const shape = { dim, precision, pooling: "sum", rowBlocks: 1, stateWidth: width } as const;
      const from = filled(k, stream, { ...shape, rows: count + 5 });
      const to = filled(k, stream, { ...shape, rows: count + 9 });
      const size = recordBytesOf(from, width);
      const left = some(stream, count, count + 5);
      const gathered = new Uint8Array(count * size);
      k.gatherRecords(gathered, from, left);
      // Moves records through a larger store, at slots of its own, and back in another order.
      const store = new Uint8Array((count + 3) * size);
      const kept = some(stream, count, count + 3);
      k.moveRecords(store, kept, gathered, undefined, count, size);
      const again = new Uint8Array(count * size);
      k.moveRecords(again, undefined, store, kept, count, size);
      t.deepEqual(again, gathered);
      const right = some(stream, count, count + 9);
      k.scatterRecords(to, right, store, kept);
      left.forEach((place, i) => {
        const expected = { ...rowOf(k, from, place), touched: 0 };
        t.deepEqual(rowOf(k, to, right[i] ?? 0), expected, `seed ${seed} ${precision}`);
      });
      k.scatterRecords(from, left, gathered);
      t.true(left.every((place) => from.touched[place] === 0));
    }
  },

  "a row that is born in a place has the weights that it has in its table": (t, k) => {
    for (const [i, precision] of precisions.entries()) {
      const stream = new RandomStream(i, 10);
      const tile = { firstRow: 1000, firstColumn: 32, dim: 40, tableDim: 72 };
      const shape = { ...tile, precision, pooling: "sum", rowBlocks: 1, stateWidth: 2 } as const;
      const table = k.rows({ ...shape, rows: 50 });
      k.born(table, key, 5, 0.7);
      const cache = filled(k, stream, { ...shape, rows: 20 });
      const [places, ids] = [some(stream, 12, 20), some(stream, 12, 50)];
      k.bornAt(cache, places, ids, key, 5, 0.7, 0.25);
      places.forEach((place, at) => {
        const expected = { ...rowOf(k, table, ids[at] ?? 0), state: [0.25, 0.25] };
        t.deepEqual(rowOf(k, cache, place), expected, precision);
      });
    }
  },

  "rows in places of a cache take the update that they take in their table": (t, k) => {
    for (const [i, kind] of ruleKinds.entries()) {
      for (const precision of precisions) {
        const stream = new RandomStream(i, 8);
        const [count, dim] = [1 + stream.below(30), 1 + stream.below(80)];
        const width = stateWidth(kind, dim);
        const tile = { firstRow: 77, dim, precision, pooling: "sum", rowBlocks: 1 } as const;
        const shape = { ...tile, stateWidth: width };
        const table = filled(k, stream, { ...shape, rows: count });
        const places = some(stream, count, count + 6);
        const names = Int32Array.from({ length: count + 6 }, (_, place) => places.indexOf(place));
        const cache = k.rows({ ...shape, rows: count + 6, names });
        const carried = new Uint8Array(count * recordBytesOf(table, width));
        k.gatherRecords(carried, table, Int32Array.from(places.keys()));
        k.scatterRecords(cache, places, carried);
        const ids = Int32Array.from({ length: 60 }, () => stream.below(count));
        const offsets = Int32Array.from({ length: 21 }, (_, at) => 3 * at);
        const bags = { tables: 1, samples: 20, offsets, ids };
        const found = { ...bags, ids: ids.map((row) => places[row] ?? 0) };
        const d = random(k, stream, [20, dim]);
        const rule = { ...ruleOf(kind, 0.01), rounding: { key, purpose: 3, step: 4 } };
        table.touched.fill(0);
        k.updateRows([table], bags, d, slicesOf(0, 4, 4, 20), [rule]);
        k.updateRows([cache], found, d, slicesOf(0, 4, 4, 20), [rule]);
        places.forEach((place, row) => {
          t.deepEqual(rowOf(k, cache, place), rowOf(k, table, row), `${kind} ${precision}`);
        });
      }
    }
  },

  "records and places that do not fit are refused": (t, k) => {
    const shape = { rows: 4, dim: 3, pooling: "sum", rowBlocks: 1, stateWidth: 1 } as const;
    const rows = k.rows(shape);
    const bytes = new Uint8Array(32);
    const place = Int32Array.of(0, 3);
    t.notThrows(() => k.gatherRecords(bytes, rows, place));
    const beyond = Int32Array.of(0, 4);
    t.throws(() => k.gatherRecords(bytes, rows, beyond), { message: /places within 0..3, got 4/ });
    t.throws(() => k.gatherRecords(bytes.subarray(0, 16), rows, place), {
      message: /room for each/,
    });
    const skewed = new Uint8Array(34).subarray(2);
    t.throws(() => k.gatherRecords(skewed, rows, place), { message: /multiple of 4 bytes, got 2/ });
    t.throws(() => k.scatterRecords(rows, place, bytes, Int32Array.of(0, 2)), {
      message: /records within 0..1, got 2/,
    });
    t.throws(() => k.scatterRecords(rows, place, bytes.subarray(16)), {
      message: /2 records, got 1/,
    });
    t.throws(() => k.bornAt(rows, place, Int32Array.of(1), key, 1, 1, 0), {
      message: /Expected ids of bornAt/,
    });
    t.throws(() => k.moveRecords(bytes, beyond, bytes, undefined, 2, 16), { message: /got 4/ });
    const named = k.rows({ ...shape, names: new Int32Array(4) });
    t.throws(() => k.born(named, key, 1, 1), { message: /bornAt/ });
    t.throws(() => k.rows({ ...shape, names: new Int32Array(3) }), { message: /a name for each/ });
    t.throws(() => k.rows({ ...shape, rowBlocks: 2, names: new Int32Array(4) }), {
      message: /one row block of a cache's places, got 2/,
    });
  },
};
