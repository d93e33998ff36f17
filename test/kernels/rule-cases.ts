// Optimizers by hand: one or two steps of every rule, on rows and on dense tensors.

import { stateWidth } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { type Cases, list, near, numbers, of, random, smallTable } from "./cases.ts";
import { ruleOf } from "./scenarios.ts";

const kinds = [
  "sgd",
  "momentum",
  "adagrad",
  "rowWiseAdagrad",
  "adam",
  "partialRowWiseAdam",
  "lamb",
  "partialRowWiseLamb",
  "ftrl",
] as const;

/** Cases of the kernels' suite. */
export const rulesByHand: Cases = {
  "a NaN or an infinity in a row's gradient is reported under every rule": (t, k) => {
    const dim = 19;
    for (const kind of kinds) {
      for (const bad of [0, Number.NaN, Number.NEGATIVE_INFINITY]) {
        const tables = [0, 1].map(() => {
          const width = stateWidth(kind, dim);
          return k.rows({ rows: 2, dim, pooling: "sum", rowBlocks: 1, stateWidth: width });
        });
        const ids = Int32Array.of(0, 1, 1, 0);
        const bags = { tables: 2, samples: 2, offsets: Int32Array.of(0, 1, 2, 3, 4), ids };
        const d = new Float32Array(2 * 2 * dim).fill(1);
        d[2 * dim - 1] = bad; // The last column of the second table, first sample.
        const dPooled = of(k, [2, 2 * dim], [...d]);
        const clip = bad < 0 || kind === "sgd" ? { clip: 0.5 } : {}; // Clipping hides no infinity.
        const rules = tables.map(() => ({ ...ruleOf(kind, 0), ...clip }));
        const found = k.updateRows(tables, bags, dPooled, slicesOf(0, 2, 2, 2), rules);
        t.is(found, bad === 0 ? -1 : 1, `${kind} ${bad}`);
        const [rows] = tables;
        if (rows === undefined) return;
        const gradient = of(k, [2, dim], [...d.subarray(0, 2 * dim)]);
        const good = k.applyRows(
          rows,
          gradient,
          of(k, [2], [1, 1]),
          { ...ruleOf(kind, 0), ...clip },
          false,
        );
        t.is(good, bad === 0, `${kind} ${bad}`);
        const sgd = { kind: "sgd", learningRate: 1, l2: 0, decay: 0 } as const;
        t.is(k.applyFlat(k.tensor([2 * dim]), [], gradient, sgd), bad === 0);
        t.is(k.firstNonFinite(gradient), bad === 0 ? -1 : 2 * dim - 1);
      }
    }
  },

  "a multiply-add rounds once, where its float64 sum ends in the middle of two float32": (t, k) => {
    // 1774001 * 38737 = 2^36 + 1, and 262143 * 262145 = 2^36 - 1.
    for (const [w, g, rate, expected] of [
      [1, -1774001, 38737, 1 + 2 ** -23],
      [-1, 1774001, 38737, -1 - 2 ** -23],
      [1 + 2 ** -23, -262143, 262145, 1 + 2 ** -23],
      [1, -(2 ** 18), 2 ** 18, 1],
    ] as const) {
      const weights = of(k, [1], [w]);
      const rule = { kind: "sgd", learningRate: rate * 2 ** -60, l2: 0, decay: 0 } as const;
      k.applyFlat(weights, [], of(k, [1], [g]), rule);
      t.deepEqual(list(k, weights), [expected]);
    }
  },

  "a row takes its summed gradient clipped, under every rule": (t, k) => {
    const stream = new RandomStream(8, 8);
    const [samples, rowsOfTable] = [12, 5];
    for (const kind of kinds) {
      for (const [i, dim] of [3, 8, 16, 32, 45, 64, 128].entries()) {
        const precision = i % 3 === 2 && kind !== "momentum" ? "int8" : "float32";
        const pooling = i % 2 === 0 ? ("sum" as const) : ("mean" as const);
        const shape = { rows: rowsOfTable, dim, pooling, rowBlocks: 1, precision } as const;
        const [weights, state] = [numbers(stream, rowsOfTable * dim), numbers(stream, 4096)];
        const made = () => {
          const rows = k.rows({ ...shape, stateWidth: stateWidth(kind, dim) });
          k.writeRows(rows, 0, weights);
          k.write(rows.state, state.slice(0, k.read(rows.state).length).map(Math.abs));
          return rows;
        };
        const [clipped, plain] = [made(), made()];
        const ids = Int32Array.from({ length: 2 * samples }, () => stream.below(rowsOfTable - 1));
        const offsets = Int32Array.from({ length: samples + 1 }, (_, s) => 2 * s);
        const bags = { tables: 1, samples, offsets, ids };
        const slices = slicesOf(0, 4, 4, samples);
        const d = random(k, stream, [samples, dim]);
        const rounding = { key: [1, 2] as const, purpose: 9, step: 1 };
        const rule = { ...ruleOf(kind, i % 2 === 0 ? 0 : 0.01), rounding };
        const most = Math.fround(0.3);

        // The clipped value is the sum over all lookups of the row, before the penalty is added.
        const [summed, counts] = [k.tensor([rowsOfTable, dim]), k.tensor([rowsOfTable])];
        k.dRows([summed], [counts], [plain], bags, d, 0, slices);
        const sums = k.read(summed);
        t.true(sums.some((g) => Math.abs(g) > 1) && sums.some((g) => Math.abs(g) < most));
        k.write(
          summed,
          sums.map((g) => Math.min(most, Math.max(-most, g))),
        );
        k.applyRows(plain, summed, counts, rule, false);
        t.is(k.updateRows([clipped], bags, d, slices, [{ ...rule, clip: 0.3 }]), -1);
        const bits = (rows: typeof plain) => [
          ...[...k.readRows(rows, 0, rowsOfTable)],
          ...list(k, rows.state),
        ];
        t.deepEqual(bits(clipped), bits(plain), `${kind}, ${dim} columns, ${precision}`);

        const again = made();
        k.dRows([summed], [counts], [again], bags, d, 0, slices);
        k.applyRows(again, summed, counts, { ...rule, clip: 0.3 }, false);
        t.deepEqual(bits(again), bits(plain), `a copy on every device: ${kind}, ${dim} columns`);
      }
    }
  },

  "a sum of one is a sum: it begins at +0, in a bag and in a row's gradient": (t, k) => {
    for (const dim of [8, 16, 32, 45, 64, 128]) {
      for (const precision of ["float32", "float16", "bfloat16"] as const) {
        const shape = { rows: 1, dim, pooling: "sum", rowBlocks: 1, stateWidth: 0 } as const;
        const rows = k.rows({ ...shape, precision });
        k.writeRows(rows, 0, new Float32Array(dim).fill(-0));
        const bags = { tables: 1, samples: 1, offsets: Int32Array.of(0, 1), ids: Int32Array.of(0) };
        const out = of(k, [1, dim], new Array(dim).fill(7));
        k.pool(out, [rows], bags, 0, 1);
        t.deepEqual(list(k, out), new Array(dim).fill(0), `${precision} ${dim}`);
        // The gradient is 0 + -0 = +0, and -0 - 0.5 * +0 stays -0; with a gradient of -0 it is +0.
        const d = of(k, [1, dim], new Array(dim).fill(-0));
        const rounding = { key: [1, 2], purpose: 3, step: 4 } as const;
        const rule = { kind: "sgd", learningRate: 0.5, l2: 0, decay: 0, rounding } as const;
        k.updateRows([rows], bags, d, slicesOf(0, 1, 1, 1), [rule]);
        const left = [...k.readRows(rows, 0, 1)];
        t.deepEqual(left, new Array(dim).fill(-0), `${precision} ${dim}`);
      }
    }
  },

  "row-wise Adagrad keeps one number of a row, and a completed mean replaces its own": (t, k) => {
    const rule = { kind: "rowWiseAdagrad", learningRate: 1, epsilon: 0, l2: 0, decay: 0 } as const;
    const d = of(k, [3, 2], [0, 0, 1, 7, 0, 0]);
    const { rows, bags } = smallTable(k, "mean", 1);
    const squares = k.rowSquares([rows], bags, d, 0, slicesOf(0, 1, 1, 3), [rule]);
    t.deepEqual([...squares], [3.125, 12.5, 3.125]);
    const sums = [{ means: Float32Array.of(1, 4, 16) }];
    k.updateRows([rows], bags, d, slicesOf(0, 1, 1, 3), [rule], sums);
    t.deepEqual(list(k, rows.state), [1, 4, 0, 16]);
    t.deepEqual(list(k, rows.weights), [0.75, 8.25, 1.75, 18.25, 3, 30, 3.9375, 39.5625]);
  },

  "the dense optimizers take one step as they are written": (t, k) => {
    const g = of(k, [2], [2, -1]);
    const w = of(k, [2], [1, 1]);
    const quarter = { learningRate: 0.25, l2: 0, decay: 0 };
    k.applyFlat(w, [], g, { kind: "sgd", ...quarter });
    t.deepEqual(list(k, w), [0.5, 1.25]);
    const acc = of(k, [2], [0, 3]);
    k.applyFlat(w, [acc], g, { kind: "adagrad", ...quarter, learningRate: 1, epsilon: 2 });
    t.deepEqual(list(k, acc), [4, 4]);
    t.deepEqual(list(k, w), [0, 1.5]);
    const [m, v] = [k.tensor([2]), k.tensor([2])];
    const betas = { beta1: 0.5, beta2: 0.75, correction1: 0.5, correction2: 0.25 };
    const rule = { learningRate: 1, epsilon: 1, l2: 0, decay: 0, ...betas };
    k.applyFlat(w, [m, v], g, { kind: "adam", ...rule });
    t.deepEqual(list(k, m), [1, -0.5]);
    t.deepEqual(list(k, v), [1, 0.25]);
    const change = Math.fround(2 / 3);
    t.deepEqual(list(k, w), [Math.fround(0 - change), 2]);
    const [buffer, x] = [of(k, [2], [4, 2]), of(k, [2], [1, 1])];
    k.applyFlat(x, [buffer], g, { kind: "momentum", momentum: 0.5, ...quarter });
    t.deepEqual(list(k, buffer), [4, 0]);
    t.deepEqual(list(k, x), [0, 1]);
    // m = 0.5 g, v = 0.25 g*g: the direction of both is 1 in size; so |u| = |w| and w loses u.
    const [m2, v2, y] = [k.tensor([2]), k.tensor([2]), of(k, [2], [1, 1])];
    k.applyFlat(y, [m2, v2], g, { kind: "lamb", ...rule, epsilon: 1e-30 });
    t.deepEqual(list(k, y), [0, 2]);
    // Decoupled decay: half of each weight is subtracted first.
    const [m3, v3, u] = [k.tensor([2]), k.tensor([2]), of(k, [2], [1, 1])];
    k.applyFlat(u, [m3, v3], g, { kind: "adam", ...rule, epsilon: 1e-30, decay: 0.5 });
    t.throws(() => k.applyFlat(u, [m3], g, { kind: "adam", ...rule }), {
      message: "Expected a rule with 1 states of an element, got adam",
    });
    t.deepEqual(list(k, u), [-0.5, 1.5]);
  },

  "decoupled decay shrinks a row beside its step, and l2 is a part of its gradient": (t, k) => {
    const expected = {
      // acc = mean(g*g) = 4: w = (1 - 0.5)*w - 1/2 * g
      "0 0.5": [0.5 * 4 - 1, 0.5 * 8 - 1],
      // g = (2, 2) + 1 * (4, 8): acc = (36 + 100) / 2 = 68
      "1 0": [4 - 6 / Math.sqrt(68), 8 - 10 / Math.sqrt(68)],
    };
    for (const [name, values] of Object.entries(expected)) {
      const [l2 = 0, decay = 0] = name.split(" ").map(Number);
      const rule = { kind: "rowWiseAdagrad", learningRate: 1, epsilon: 0, l2, decay } as const;
      const rows = k.rows({ rows: 1, dim: 2, pooling: "sum", rowBlocks: 1, stateWidth: 1 });
      k.write(rows.weights, Float32Array.of(4, 8));
      k.applyRows(rows, of(k, [1, 2], [2, 2]), of(k, [1], [1]), rule, false);
      near(t, list(k, rows.weights), values);
    }
  },

  "partial row-wise Adam has one second moment, of the mean of squares": (t, k) => {
    const rule = { ...ruleOf("partialRowWiseAdam", 0), learningRate: 1, beta1: 0.5, beta2: 0.75 };
    const rows = k.rows({ rows: 1, dim: 2, pooling: "sum", rowBlocks: 1, stateWidth: 3 });
    k.write(rows.weights, Float32Array.of(1, 1));
    const corrections = { epsilon: 1, decay: 0.5, correction1: 0.5, correction2: 0.25 };
    k.applyRows(rows, of(k, [1, 2], [2, 4]), of(k, [1], [1]), { ...rule, ...corrections }, false);
    t.deepEqual(list(k, rows.state), [1, 2, 2.5]);
    const root = Math.sqrt(2.5) / Math.sqrt(0.25) + 1;
    near(t, list(k, rows.weights), [0.5 - 2 / root, 0.5 - 4 / root]);
  },

  "LAMB moves a row by its own length, whatever the length of its gradient": (t, k) => {
    for (const kind of ["lamb", "partialRowWiseLamb"] as const) {
      for (const scale of [1, 1000]) {
        const rule = { ...ruleOf(kind, 0), decay: 0, epsilon: 1e-12 };
        const stateWidth = kind === "lamb" ? 140 : 71;
        const rows = k.rows({ rows: 1, dim: 70, pooling: "sum", rowBlocks: 1, stateWidth });
        const before = Float32Array.from({ length: 70 }, (_, c) => Math.sin(c + 1));
        k.write(rows.weights, before);
        const gradient = before.map((w, c) => scale * (w + 0.1 * c));
        k.applyRows(rows, of(k, [1, 70], [...gradient]), of(k, [1], [1]), rule, false);
        const moved = list(k, rows.weights).map((w, c) => w - (before[c] ?? 0));
        near(t, [Math.hypot(...moved) / Math.hypot(...before)], [0.05]);
      }
    }
  },

  "FTRL keeps at 0 what has said too little, and follows its published formula": (t, k) => {
    const rule = {
      kind: "ftrl",
      learningRate: 0.5,
      beta: 1,
      lambda1: 2,
      lambda2: 3,
      l2: 0,
    } as const;
    const rows = k.rows({ rows: 1, dim: 3, pooling: "sum", rowBlocks: 1, stateWidth: 6 });
    for (const g of [
      [1, 3, -3],
      [0.5, 4, -4],
    ]) {
      k.applyRows(rows, of(k, [1, 3], g), of(k, [1], [1]), rule, false);
    }
    // After 3: w = -(3-2) / ((1+3)/0.5 + 3) = -1/11; then s = (5-3)/0.5 and z = 3 + 4 - s*w.
    const z = 7 + 4 / 11;
    near(t, list(k, rows.state), [1.5, z, -z, 1.25, 25, 25]);
    const w = (z - 2) / (6 / 0.5 + 3);
    near(t, list(k, rows.weights), [0, -w, w]);
  },
};
