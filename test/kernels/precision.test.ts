// Quantised weights: the value of a code, unbiased stochastic rounding, and its benefit.

import test from "ava";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import {
  decode,
  decodeRow,
  encode,
  encodeRow,
  exponentOf,
  type Precision,
} from "../../src/kernels/contract/precision.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { eachIsa } from "./instruction-sets.ts";

const halves = ["float16", "bfloat16"] as const;

test("every 16-bit code decodes and encodes to itself, with either rounding", (t) => {
  for (const precision of halves) {
    for (let code = 0; code < 2 ** 16; code++) {
      const value = decode(precision, code, 0);
      if (Number.isNaN(value)) {
        if (!Number.isNaN(decode(precision, encode(precision, value, 0, undefined), 0))) t.fail();
        continue;
      }
      for (const random of [undefined, 0, 0xffff]) {
        const again = encode(precision, value, 0, random);
        if (again !== code) t.fail(`${precision} ${code} became ${again}`);
      }
    }
  }
  t.pass();
});

test("float16 has its known values", (t) => {
  const known: [number, number][] = [
    [0x3c00, 1],
    [0xc000, -2],
    [0x7bff, 65504],
    [0x0001, 2 ** -24],
    [0x03ff, 1023 * 2 ** -24],
    [0x0400, 2 ** -14],
    [0x7c00, Number.POSITIVE_INFINITY],
    [0x8000, -0],
  ];
  for (const [code, value] of known) {
    t.is(decode("float16", code, 0), value);
    t.is(encode("float16", value, 0, undefined), code);
  }
  t.is(encode("float16", 65520, 0, undefined), 0x7c00);
  t.is(encode("float16", 1e-9, 0, undefined), 0);
});

test("stochastic rounding picks a neighbour in proportion to its nearness", (t) => {
  const stream = new RandomStream(1, 1);
  const draws = 20_000;
  const values: [Precision, number][] = [
    ["float16", 0.1],
    ["float16", -3.3e-7],
    ["bfloat16", -0.7],
    ["int8", 0.123],
  ];
  for (const [precision, value] of values) {
    let sum = 0;
    const seen = new Set<number>();
    for (let i = 0; i < draws; i++) {
      const code = encode(precision, Math.fround(value), -6, stream.word() & 0xffff);
      const rounded = decode(precision, code, -6);
      seen.add(rounded);
      sum += rounded;
    }
    t.is(seen.size, 2);
    const step = Math.max(...seen) - Math.min(...seen);
    // The mean of so many draws deviates by step / 2 / sqrt(draws), and hardly ever by four times
    // that.
    t.true(Math.abs(sum / draws - value) < (2 * step) / Math.sqrt(draws), `${precision}`);
  }
});

test("an int8 quantum holds its largest weight, and re-encodes to the same numbers", (t) => {
  const stream = new RandomStream(2, 2);
  const dim = 32 + 13;
  for (let round = 0; round < 200; round++) {
    const scales = Array.from({ length: 2 }, () => 2 ** (stream.below(60) - 30));
    const weights = Float32Array.from({ length: dim }, (_, c) => {
      return (scales[c >> 5] ?? 0) * (2 * stream.uniform() - 1);
    });
    const row = {
      precision: "int8",
      codes: new Int8Array(2 * dim),
      exponents: new Int8Array(4),
    } as const;
    encodeRow(row, 1, weights, { key: [1, round], purpose: 5, step: 6 });
    const [first, second] = [new Float32Array(dim), new Float32Array(dim)];
    decodeRow(first, row, 1);
    for (const quantum of [weights.subarray(0, 32), weights.subarray(32)]) {
      const at = quantum.byteOffset / 4;
      const step = 2 ** exponentOf(quantum);
      t.true(quantum.every((w, c) => Math.abs(w - (first[at + c] ?? 0)) < step));
      t.true(Math.max(...quantum.map(Math.abs)) > 63 * step);
    }
    encodeRow(row, 0, first);
    decodeRow(second, row, 0);
    t.deepEqual(second, first);
  }
  t.deepEqual([exponentOf([0, 0]), exponentOf([127, 1]), exponentOf([127.5])], [-126, 0, 1]);
});

test.serial(
  "every instruction set rounds like the reference, values at the limits of formats included",
  (t) => {
    const stream = new RandomStream(4, 4);
    const special = [0, -0, 1e-45, -3e-39, 6e-5, -6.1e-5, 65519, 65520, -1e30, 3.4e38, 127.5];
    for (let round = 0; round < 30; round++) {
      const [rows, dim] = [1 + stream.below(4), 1 + stream.below(150)];
      const gradient = Float32Array.from({ length: rows * dim }, () => {
        if (stream.below(9) === 0) return special[stream.below(special.length)] ?? 0;
        if (stream.below(200) === 0) return [Number.NaN, 1 / 0, -1 / 0][stream.below(3)] ?? 0;
        return (2 * stream.uniform() - 1) * 2 ** (stream.below(20) - 16);
      });
      for (const precision of ["float16", "bfloat16", "int8"] as const) {
        const codesOf = (kernels: Kernels) => {
          const spec = {
            rows,
            dim,
            pooling: "sum",
            rowBlocks: 1,
            stateWidth: 0,
            precision,
          } as const;
          const table = kernels.rows(spec);
          const [d, counts] = [kernels.tensor([rows, dim]), kernels.tensor([rows])];
          kernels.write(d, gradient);
          const rounding = {
            key: [round, 5],
            purpose: 2 ** 31 + 7,
            step: 2 ** 32 - 1 - round,
          } as const;
          // From 0 by -1: only the rounding of -gradient, which is exact before rounding.
          const rule = { kind: "sgd", learningRate: 1, l2: 0, decay: 0, rounding } as const;
          kernels.applyRows(table, d, counts, rule, true);
          return [[...table.codes], [...table.exponents]];
        };
        const expected = codesOf(openKernels("reference"));
        eachIsa(t, (kernels, isa) =>
          t.deepEqual(codesOf(kernels), expected, `${isa} ${precision}`),
        );
      }
    }
  },
);

test.serial("every instruction set decodes every code like the reference", (t) => {
  const dim = 45;
  for (const precision of ["float16", "bfloat16", "int8"] as const) {
    const rows = Math.ceil((precision === "int8" ? 256 : 65536) / dim);
    const spec = { rows, dim, pooling: "sum", rowBlocks: 1, stateWidth: 0, precision } as const;
    const pooled = (kernels: Kernels) => {
      const table = kernels.rows(spec);
      table.codes.set(Array.from(table.codes, (_, at) => at));
      table.exponents.set(Array.from(table.exponents, (_, at) => 17 * at));
      const out = kernels.tensor([rows, dim]);
      const ids = Int32Array.from({ length: rows }, (_, row) => row);
      const offsets = Int32Array.from({ length: rows + 1 }, (_, row) => row);
      kernels.pool(out, [table], { tables: 1, samples: rows, offsets, ids }, 0, rows);
      return kernels.read(out);
    };
    const expected = pooled(openKernels("reference"));
    eachIsa(t, (kernels, isa) => t.deepEqual(pooled(kernels), expected, `${isa} ${precision}`));
  }
});

test("20,000 updates of -1e-5 from 1 accumulate, where round-to-nearest would stand still", (t) => {
  const kernels = openKernels("auto");
  const drift = (precision: Precision) => {
    const [rows, dim] = [10, 64];
    const stored = kernels.rows({
      rows,
      dim,
      pooling: "sum",
      rowBlocks: 1,
      stateWidth: 0,
      precision,
    });
    kernels.writeRows(stored, 0, new Float32Array(rows * dim).fill(1));
    const [gradient, counts] = [kernels.tensor([rows, dim]), kernels.tensor([rows])];
    kernels.fill(gradient, 1);
    for (let step = 0; step < 20_000; step++) {
      const rounding = { key: [3, 0], purpose: 9, step } as const;
      const rule = { kind: "sgd", learningRate: 1e-5, l2: 0, decay: 0, rounding } as const;
      kernels.applyRows(stored, gradient, counts, rule, true);
    }
    const weights = kernels.readRows(stored, 0, rows);
    return weights.reduce((sum, w) => sum + w, 0) / weights.length;
  };
  t.true(Math.abs(drift("float32") - 0.8) < 0.001);
  // One weight deviates by about 0.01 (float16), 0.03 (bfloat16); the mean of 640 by far less.
  t.true(Math.abs(drift("float16") - 0.8) < 0.002);
  t.true(Math.abs(drift("bfloat16") - 0.8) < 0.005);
  t.true(Math.abs(drift("int8") - 0.8) < 0.01);
  const nearest = encode("float16", Math.fround(1 - 1e-5), 0, undefined);
  t.is(decode("float16", nearest, 0), 1);
});

test("quantised rows are not updated without the random numbers for their rounding", (t) => {
  const kernels = openKernels("reference");
  const spec = { rows: 1, dim: 2, pooling: "sum", rowBlocks: 1, stateWidth: 0 } as const;
  const rows = kernels.rows({ ...spec, precision: "int8" });
  const [gradient, counts] = [kernels.tensor([1, 2]), kernels.tensor([1])];
  const rule = { kind: "sgd", learningRate: 1, l2: 0, decay: 0 } as const;
  const update = () => kernels.applyRows(rows, gradient, counts, rule, true);
  t.throws(update, { message: /Expected a rounding for rows of int8/ });
});
