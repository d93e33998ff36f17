// Columns packed for the exchange between devices: how each precision rounds a value, and every
// instruction set packs, unpacks, folds and initialises the same bits as the reference.

import { readFileSync } from "node:fs";
import test from "ava";
import type { Kernels, Tensor } from "../../../src/kernels/contract/kernels.ts";
import {
  encode,
  isFloat8,
  type Precision,
  packedBytes,
  type WirePrecision,
} from "../../../src/kernels/contract/precision.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { rounds } from "../../helpers/thinned.ts";
import { list, of } from "../cases.ts";
import { eachIsa } from "../instruction-sets.ts";

const stored: readonly Precision[] = ["float32", "float16", "bfloat16", "int8"];
const precisions: readonly WirePrecision[] = [...stored, "float8e4m3", "float8e5m2"];
const none = [Number.NaN, 1 / 0, -1 / 0];

/** Numbers of many sizes, those at the limits of a format, and non-finite ones. */
function values(stream: RandomStream, count: number): Float32Array {
  const special = [
    0,
    -0,
    1e-45,
    -3e-39,
    2 ** -24,
    2 ** -25 + 2 ** -45,
    6.1e-5,
    65519,
    65520,
    // Halfway between float8 numbers, at their largest ones, and below their least one.
    1.0625,
    1.1875,
    464,
    -464.1,
    61_440,
    61_439,
    2 ** -10,
    3 * 2 ** -10,
    -(2 ** -17),
    3.4e38,
  ];
  return Float32Array.from({ length: count }, () => {
    if (stream.below(9) === 0) return special[stream.below(special.length)] ?? 0;
    if (stream.below(60) === 0) return none[stream.below(3)] ?? 0;
    return (2 * stream.uniform() - 1) * 2 ** (stream.below(34) - 30);
  });
}

/** `values` (B,·) packed from column 1 on, and unpacked into column 2 and on. */
function through(
  k: Kernels,
  from: Tensor,
  columns: number,
  precision: WirePrecision,
  scale?: number,
) {
  const samples = from.shape[0] ?? 0;
  const bytes = packedBytes(samples, columns, precision);
  const buffer = new SharedArrayBuffer(bytes + 12);
  new Uint8Array(buffer).fill(0xa5);
  const at = { buffer, byteOffset: 8 };
  k.packColumns(at, from, 1, columns, precision, scale);
  const out = k.tensor([samples, columns + 3]);
  k.fill(out, 7);
  k.unpackColumns(out, 2, at, columns, precision, scale);
  return { packed: [...new Uint8Array(buffer)], out: list(k, out) };
}

test.serial("every instruction set packs, unpacks and folds like the reference", (t) => {
  const stream = new RandomStream(8, 8);
  for (let round = 0; round < rounds("random columns to pack", 4, 30); round++) {
    const [samples, columns] = [1 + stream.below(9), 1 + stream.below(150)];
    const all = values(stream, samples * (columns + 2));
    const scale = 2 ** (stream.below(25) - 12);
    for (const precision of precisions) {
      const run = (k: Kernels) => {
        const from = of(k, [samples, columns + 2], [...all]);
        const part = (first: number) => ({ from, first, tree: { first, count: 1 } });
        const folded = k.tensor([samples, columns]);
        k.foldPooled(
          folded,
          0,
          [part(0), part(1), part(2)],
          4,
          columns,
          undefined,
          precision,
          scale,
        );
        return { ...through(k, from, columns, precision, scale), folded: list(k, folded) };
      };
      const expected = run(openKernels("reference"));
      eachIsa(t, (kernels, isa) => t.deepEqual(run(kernels), expected, `${isa} ${precision}`));
    }
  }
});

test.serial("every instruction set initialises rows like the reference", (t) => {
  const stream = new RandomStream(9, 9);
  for (let round = 0; round < rounds("random rows to bear", 3, 20); round++) {
    const shape = { rows: 1 + stream.below(5), dim: 1 + stream.below(150), stateWidth: 0 };
    const scale = 2 ** -stream.below(30);
    for (const precision of stored) {
      const run = (k: Kernels) => {
        const firstColumn = 32 * (round % 3);
        const place = { firstRow: 2 ** 30, firstColumn, tableDim: firstColumn + shape.dim };
        const rows = k.rows({ ...shape, ...place, pooling: "sum", rowBlocks: 1, precision });
        k.born(rows, [round, 3], 2 ** 28 + 5, scale);
        return [list(k, rows.weights), [...rows.codes], [...rows.exponents]];
      };
      const expected = run(openKernels("reference"));
      eachIsa(t, (kernels, isa) => t.deepEqual(run(kernels), expected, `${isa} ${precision}`));
    }
  }
});

test("packed columns have the predicted number of bytes, and no more are written", (t) => {
  t.deepEqual(
    precisions.map((precision) => packedBytes(3, 33, precision)),
    [396, 200, 200, 108, 100, 100],
  );
  t.is(packedBytes(0, 33, "int8"), 0);
  for (const name of ["reference", "auto"] as const) {
    const k = openKernels(name);
    const from = of(k, [3, 34], new Array<number>(102).fill(1));
    for (const precision of precisions) {
      const { packed, out } = through(k, from, 33, precision);
      t.deepEqual(packed.slice(0, 8), new Array<number>(8).fill(0xa5));
      t.deepEqual(packed.slice(-4), new Array<number>(4).fill(0xa5));
      const row = [7, 7, ...new Array<number>(33).fill(1), 7];
      t.deepEqual(out, [...row, ...row, ...row]);
      const at = { buffer: new ArrayBuffer(packedBytes(3, 33, precision)), byteOffset: 0 };
      t.throws(() => k.packColumns({ ...at, byteOffset: 4 }, from, 1, 33, precision));
      t.throws(() => k.packColumns({ ...at, byteOffset: 2 }, from, 1, 33, precision));
      t.throws(() => k.packColumns(at, from, 2, 33, precision), {
        message: /columns from fromFirst/,
      });
      t.throws(() => k.unpackColumns(from, 2, at, 33, precision), {
        message: /columns from outFirst/,
      });
      t.throws(() => k.unpackColumns(from, 0, { ...at, byteOffset: 8 }, 34, precision));
    }
  }
});

test("a value rounds to the nearest of its precision, ties to even", (t) => {
  const cases: [WirePrecision, number, number][] = [
    ["float16", 1 + 2 ** -11, 1],
    ["float16", 1 + 3 * 2 ** -11, 1 + 2 ** -9],
    ["float16", 2 ** -25, 0],
    ["float16", 2 ** -25 + 2 ** -45, 2 ** -24],
    ["float16", 65519, 65504],
    ["float16", -65520, -1 / 0],
    ["bfloat16", 1 + 2 ** -8, 1],
    ["bfloat16", 1 + 3 * 2 ** -8, 1 + 2 ** -6],
    // With a weight of 127 in the quantum, a step is 1.
    ["int8", 2.4, 2],
    ["int8", -3.6, -4],
    ["float8e4m3", 1.0625, 1],
    ["float8e4m3", 1.1875, 1.25],
    ["float8e4m3", 464, 448],
    ["float8e4m3", 2 ** -10, 0],
    ["float8e5m2", 1.125, 1],
    ["float8e5m2", -61_439, -57_344],
    ["float8e5m2", 61_440, 1 / 0],
  ];
  for (const name of ["reference", "auto"] as const) {
    const k = openKernels(name);
    for (const [precision, value, expected] of cases) {
      const from = of(k, [1, 3], [0, value, 127]);
      t.is(through(k, from, 2, precision).out[2], expected, `${precision} ${value}`);
    }
  }
  t.is(encode("float16", 2 ** -25 + 2 ** -45, 0, undefined), 1);
});

test("non-finite values stay so in every precision, and leave the others unchanged", (t) => {
  for (const name of ["reference", "auto"] as const) {
    const k = openKernels(name);
    for (const precision of precisions) {
      for (const value of none) {
        const from = of(k, [1, 4], [0, 3, value, -5]);
        const { out } = through(k, from, 3, precision);
        t.deepEqual([out[2], out[4]], [3, -5], `${precision} ${value}`);
        t.false(Number.isFinite(out[3]), `${precision} ${value}`);
      }
    }
  }
});

test("a scale moves float16 and float8 exactly, and leaves the other formats alone", (t) => {
  for (const name of ["reference", "auto"] as const) {
    const k = openKernels(name);
    const from = of(k, [1, 4], [0, 2 ** -18, 2 ** -14, -(2 ** -12)]);
    for (const precision of precisions) {
      const { out } = through(k, from, 3, precision, 2 ** 16);
      t.deepEqual(out.slice(2, 5), [2 ** -18, 2 ** -14, -(2 ** -12)], precision);
    }
    // 2^-14 * 2^30 = 2^16 exceeds the largest number of float16 and float8, and of no other format.
    const over = precisions.filter((one) => {
      return !Number.isFinite(through(k, from, 3, one, 2 ** 30).out[3]);
    });
    t.deepEqual(over, ["float16", ...precisions.filter(isFloat8)]);
    t.throws(() => through(k, from, 3, "float16", 3), { message: /scale of packColumns is 3/ });
  }
});

/** Casts by PyTorch, of test/fixtures/golden/float8/float8.py. */
type Casts = Readonly<
  Record<"numbers", readonly string[]> &
    Record<"codes" | "halfwayCodes", string> &
    Record<"halfway", readonly number[]>
>;

test.serial("float8 has the numbers of PyTorch's, and rounds to the same codes", (t) => {
  const golden = readFileSync("test/fixtures/golden/float8/float8.json", "utf8");
  const sizes = Array.from({ length: 2048 }, (_, i) => Math.imul(i, 0x9e37_79b1) >>> 0);
  for (const [format, casts] of Object.entries(JSON.parse(golden) as Record<string, Casts>)) {
    const precision = format as "float8e4m3" | "float8e5m2";
    const numbers = casts.numbers.map((text) =>
      text === "inf" ? 1 / 0 : text === "-inf" ? -1 / 0 : Number(text),
    );
    const bits = Uint32Array.from([...sizes, ...casts.halfway]);
    const floats = new Float32Array(bits.buffer);
    // PyTorch keeps the sign of NaN, which differs between processors, and (since 2.13) clamps
    // values beyond E4M3, infinities too. Here they are NaN, as clamping would hide an overflow.
    const isOver = (at: number) => precision === "float8e4m3" && Math.abs(floats[at] ?? 0) > 464;
    const codes = [...Buffer.from(casts.codes + casts.halfwayCodes, "hex")].map((code, at) => {
      return Number.isNaN(numbers[code]) || isOver(at) ? 0x7f : code;
    });
    t.is(codes.length, floats.length);
    const casted = (k: Kernels) => {
      const packed = new Uint8Array(packedBytes(1, floats.length, precision));
      const from = of(k, [1, floats.length], [...floats]);
      k.packColumns({ buffer: packed.buffer, byteOffset: 0 }, from, 0, floats.length, precision);
      const every = Uint8Array.from({ length: 256 }, (_, code) => code);
      const out = k.tensor([1, 256]);
      k.unpackColumns(out, 0, { buffer: every.buffer, byteOffset: 0 }, 256, precision);
      return { codes: [...packed.subarray(0, floats.length)], numbers: list(k, out) };
    };
    t.deepEqual(casted(openKernels("reference")), { codes, numbers }, format);
    eachIsa(t, (k, isa) => t.deepEqual(casted(k), { codes, numbers }, `${isa} ${format}`));
  }
});
