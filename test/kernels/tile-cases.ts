// Cases of the kernels' suite: a table cut into tiles, by row blocks and by column quanta, gives
// the bits of the whole table: its initial values, its pooled vectors and its update.

import type { ExecutionContext } from "ava";
import {
  type Bags,
  type Kernels,
  type Pooling,
  type RowRule,
  type Rows,
  stateWidth,
  type Tensor,
  takesMean,
  takesTrust,
} from "../../src/kernels/contract/kernels.ts";
import type { Precision } from "../../src/kernels/contract/precision.ts";
import { type Slices, type Subtree, slicesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { sameValues } from "../helpers/same-values.ts";
import { type Cases, list, numbers, of, random } from "./cases.ts";
import { ruleKinds, ruleOf, widened } from "./scenarios.ts";

const precisions: readonly Precision[] = ["float32", "float16", "bfloat16", "int8"];
const key = [11, 12] as const;

/** The tiles of a run of row blocks, one for each run of quanta. */
interface Band {
  readonly tree: Subtree;
  readonly tiles: readonly Rows[];
}

interface CutTable {
  readonly whole: Rows;
  readonly bands: readonly Band[];
}

function cutBlocks(stream: RandomStream, tree: Subtree): Subtree[] {
  if (tree.count === 1 || stream.below(3) === 0) return [tree];
  const count = tree.count / 2;
  const halves = [tree.first, tree.first + count];
  return halves.flatMap((first) => cutBlocks(stream, { first, count }));
}

/** The first columns of runs of quanta, and the end. */
function cutColumns(stream: RandomStream, dim: number): number[] {
  const starts = [0];
  for (let first = 32; first < dim; first += 32) if (stream.below(2) === 0) starts.push(first);
  return [...starts, dim];
}

/** A table of random shape, and its tiles, with equal initial values and states. */
function cutTable(k: Kernels, stream: RandomStream, kind: RowRule["kind"]): CutTable {
  const [rows, dim] = [1 + stream.below(30), 1 + stream.below(150)];
  const rowBlocks = 1 << stream.below(4);
  const precision = precisions[stream.below(4)] ?? "float32";
  const pooling: Pooling = stream.below(2) === 0 ? "mean" : "sum";
  const shape = { rows, dim, pooling, rowBlocks, precision };
  const whole = k.rows({ ...shape, stateWidth: stateWidth(kind, dim) });
  k.born(whole, key, 5, 0.7);
  k.write(whole.state, numbers(stream, k.read(whole.state).length).map(Math.abs));
  const starts = cutColumns(stream, dim);
  const blockRows = Math.ceil(rows / rowBlocks);
  const bands = cutBlocks(stream, { first: 0, count: rowBlocks }).map((tree): Band => {
    const firstRow = tree.first * blockRows;
    const held = Math.max(0, Math.min(rows - firstRow, tree.count * blockRows));
    const tiles = starts.slice(0, -1).map((firstColumn, i) => {
      const columns = (starts[i + 1] ?? dim) - firstColumn;
      const part = { rows: held, dim: columns, pooling: "sum", rowBlocks: tree.count } as const;
      const place = { blockRows, firstRow, firstColumn, tableDim: dim };
      const width = stateWidth(kind, columns);
      const tile = k.rows({ ...part, ...place, stateWidth: width, precision });
      k.born(tile, key, 5, 0.7);
      k.write(tile.state, partOf(k, whole, tile, kind).state);
      return tile;
    });
    return { tree, tiles };
  });
  return { whole, bands };
}

/** The values of the whole table at the position of the tile. */
function partOf(k: Kernels, whole: Rows, tile: Rows, kind: RowRule["kind"]) {
  const { firstRow, firstColumn, dim } = tile;
  const from = Math.min(firstRow, whole.rows);
  const weights = k.readRows(whole, from, tile.rows);
  const state = k.read(k.part(whole.state, from, tile.rows));
  const width = stateWidth(kind, whole.dim);
  const elements = Math.floor(stateWidth(kind, 1000) / 1000);
  const columnsOf = (values: Float32Array, at: number) => [
    ...values.subarray(at + firstColumn, at + firstColumn + dim),
  ];
  const rows = Array.from({ length: tile.rows }, (_, row) => row);
  return {
    weights: rows.flatMap((row) => columnsOf(weights, row * whole.dim)),
    state: Float32Array.from(
      rows.flatMap((row) => [
        ...Array.from({ length: elements }, (_, e) => row * width + e * whole.dim).flatMap((at) =>
          columnsOf(state, at),
        ),
        ...state.subarray(row * width + elements * whole.dim, (row + 1) * width),
      ]),
    ),
    touched: [...whole.touched.subarray(firstRow, firstRow + tile.rows)],
  };
}

function holdsItsPart(t: ExecutionContext, k: Kernels, cut: CutTable, rule: RowRule): void {
  for (const tile of cut.bands.flatMap((band) => band.tiles)) {
    const expected = partOf(k, cut.whole, tile, rule.kind);
    const { precision, firstRow, firstColumn } = tile;
    const where = `${rule.kind} ${precision} from row ${firstRow}, column ${firstColumn}`;
    sameValues(t, [...k.readRows(tile, 0, tile.rows)], expected.weights, where);
    sameValues(t, k.read(tile.state), expected.state, where);
    t.deepEqual([...tile.touched], expected.touched, where);
  }
}

/** Random bags of one table, some empty, some weighted. */
function bagsOf(stream: RandomStream, rows: number): Bags<Int32Array> {
  const samples = 1 + stream.below(20);
  const offsets = [0];
  for (let s = 0; s < samples; s++) offsets.push((offsets.at(-1) ?? 0) + stream.below(5));
  const ids = Int32Array.from({ length: offsets.at(-1) ?? 0 }, () => stream.below(rows));
  const bags = { tables: 1, samples, offsets: Int32Array.from(offsets), ids };
  return stream.below(2) === 0 ? bags : { ...bags, weights: numbers(stream, ids.length) };
}

/** The ids of the bags that lie in a tile, counted from the tile's first row. */
function bucketed(bags: Bags<Int32Array>, { firstRow, rows }: Rows): Bags<Int32Array> {
  const offsets = [0];
  const places: number[] = [];
  for (let s = 0; s < bags.samples; s++) {
    for (let at = bags.offsets[s] ?? 0; at < (bags.offsets[s + 1] ?? 0); at++) {
      const row = (bags.ids[at] ?? 0) - firstRow;
      if (row >= 0 && row < rows) places.push(at);
    }
    offsets.push(places.length);
  }
  const ids = Int32Array.from(places, (at) => (bags.ids[at] ?? 0) - firstRow);
  const own = { ...bags, offsets: Int32Array.from(offsets), ids };
  const { weights } = bags;
  if (weights === undefined) return own;
  return { ...own, weights: Float32Array.from(places, (at) => weights[at] ?? 0) };
}

function lengthsOf(bags: Bags): Int32Array {
  return Int32Array.from(
    { length: bags.samples },
    (_, s) => (bags.offsets[s + 1] ?? 0) - (bags.offsets[s] ?? 0),
  );
}

/** Pools every tile, and folds the partial vectors as the samples' device does. */
function poolTiles(
  k: Kernels,
  { whole, bands }: CutTable,
  bags: Bags<Int32Array>,
  precision?: Precision,
): Tensor {
  const out = k.tensor([bags.samples, whole.dim]);
  const lengths = whole.pooling === "mean" ? lengthsOf(bags) : undefined;
  const runs = bands[0]?.tiles ?? [];
  runs.forEach(({ firstColumn, dim }, run) => {
    const parts = bands.flatMap(({ tree, tiles }) => {
      const tile = tiles[run];
      // Tiles of blocks without rows may be omitted.
      if (tile === undefined || tile.rows === 0) return [];
      const pooled = k.tensor([bags.samples, dim]);
      k.pool(pooled, [tile], bucketed(bags, tile), 0, bags.samples);
      const from = k.tensor([bags.samples, dim + 3]);
      k.copyColumns(from, 2, pooled, 0, dim);
      return [{ from, first: 2, tree }];
    });
    k.foldPooled(out, firstColumn, parts, whole.rowBlocks, dim, lengths, precision);
  });
  return out;
}

/** Updates the tiles of one band in as many phases as the rule takes. */
function updateBand(
  k: Kernels,
  { tiles }: Band,
  bags: Bags,
  gradients: readonly Tensor[],
  slices: Slices,
  rule: RowRule,
): void {
  const dim = tiles[0]?.tableDim ?? 0;
  const quanta = tiles.map((tile) => Math.ceil(tile.dim / 32));
  const phase = <Sums>(run: (tile: Rows, d: Tensor) => Sums): Sums[] =>
    tiles.map((tile, i) => run(tile, gradients[i] ?? k.tensor([0])));
  const squares = phase((tile, d) => k.rowSquares([tile], bags, d, 0, slices, [rule]));
  const means = takesMean(rule.kind) ? k.rowMeans(squares, quanta, dim) : undefined;
  const norms = () => phase((tile, d) => k.rowNorms([tile], bags, d, 0, slices, [rule], means));
  const trust = takesTrust(rule.kind) ? k.rowTrust(norms(), quanta) : undefined;
  phase((tile, d) => k.updateRows([tile], bags, d, slices, [rule], [{ means, trust }]));
}

/** Calls `use` with a cut table, its bags and its rule, several times for every rule. */
function eachCut(
  k: Kernels,
  use: (cut: CutTable, bags: Bags<Int32Array>, rule: RowRule, stream: RandomStream) => void,
): void {
  for (const kind of ruleKinds) {
    for (let seed = 1; seed <= 8; seed++) {
      const stream = new RandomStream(seed, 6);
      const cut = cutTable(k, stream, kind);
      const rounding = { key: [7, 8], purpose: 9, step: seed } as const;
      const clip = seed % 4 > 1 ? { clip: 0.3 } : {};
      const rule = { ...ruleOf(kind, seed % 2 === 0 ? 0.01 : 0), rounding, ...clip };
      use(cut, bagsOf(stream, cut.whole.rows), rule, stream);
    }
  }
}

export const tiles: Cases = {
  "a tile is born as its part of the table": (t, k) => {
    eachCut(k, (cut, _, rule) => holdsItsPart(t, k, cut, rule));
    const whole = k.rows({ rows: 3, dim: 5, pooling: "sum", rowBlocks: 1, stateWidth: 0 });
    k.born(whole, key, 5, 0.3);
    const drawn = k.tensor([3, 5]);
    k.uniform(drawn, key, 5, 0, 0.3);
    t.deepEqual(list(k, whole.weights), list(k, drawn));
  },

  "tiles pooled as sums and folded give the bits of the whole table": (t, k) => {
    eachCut(k, (cut, bags, rule) => {
      const expected = k.tensor([bags.samples, cut.whole.dim]);
      k.pool(expected, [cut.whole], bags, 0, bags.samples);
      const { rowBlocks, pooling, precision } = cut.whole;
      const what = `${rule.kind} ${precision} ${pooling} ${rowBlocks}`;
      t.deepEqual(list(k, poolTiles(k, cut, bags)), list(k, expected), what);
    });
  },

  "tiles updated one by one have the bits of the whole table": (t, k) => {
    eachCut(k, (cut, bags, rule, stream) => {
      const { whole, bands } = cut;
      const d = random(k, stream, [bags.samples, whole.dim]);
      const slices = slicesOf(0, 4, 4, bags.samples);
      k.updateRows([whole], bags, d, slices, [rule]);
      for (const band of bands) {
        const gradients = band.tiles.map(({ firstColumn, dim }) => {
          const share = k.tensor([bags.samples, dim]);
          if (whole.pooling === "sum") k.copyColumns(share, 0, d, firstColumn, dim);
          else k.shareColumns(share, 0, d, firstColumn, dim, lengthsOf(bags));
          return share;
        });
        const [tile] = band.tiles;
        if (tile === undefined) continue;
        const own = bucketed(bags, tile);
        const ids = stream.below(2) === 0 ? own : widened(own);
        updateBand(k, band, ids, gradients, slices, rule);
      }
      holdsItsPart(t, k, cut, rule);
    });
  },

  "blocks that no part has are +0, and a length of 0 divides nothing": (t, k) => {
    const from = of(k, [3, 2], [-0, 1, 2, 3, 4, 5]);
    const out = of(k, [3, 4], new Array<number>(12).fill(9));
    const part = { from, first: 0, tree: { first: 1, count: 1 } };
    k.foldPooled(out, 1, [part], 4, 2, Int32Array.of(0, 2, 1));
    t.deepEqual(list(k, out), [9, 0, 1, 9, 9, 1, 1.5, 9, 9, 4, 5, 9]);
    t.true(Object.is(k.read(out)[1], 0));
    k.shareColumns(out, 2, from, 1, 1, Int32Array.of(3, 0, 5));
    t.deepEqual(list(k, out), [9, 0, Math.fround(1 / 3), 9, 9, 1, 0, 9, 9, 4, 1, 9]);
  },

  "parts are added as the tree over their blocks, not from left to right": (t, k) => {
    const parts = [1, 2 ** 24, 1, 1].map((value, block) => {
      return { from: of(k, [1, 1], [value]), first: 0, tree: { first: block, count: 1 } };
    });
    const out = k.tensor([1, 1]);
    k.foldPooled(out, 0, parts, 4, 1);
    // (1 + 2^24) rounds to 2^24; (1 + 1) = 2 is added whole. From left to right both ones would be
    // lost.
    t.deepEqual(list(k, out), [2 ** 24 + 2]);
  },

  "a fold in fewer bits rounds each node, wherever the tree was cut": (t, k) => {
    for (const precision of precisions) {
      const [samples, columns] = [4, 70];
      const stream = new RandomStream(5, 5);
      const leaves = [0, 1, 2, 3].map((block) => {
        return {
          from: random(k, stream, [samples, columns]),
          first: 0,
          tree: { first: block, count: 1 },
        };
      });
      const whole = k.tensor([samples, columns]);
      k.foldPooled(whole, 0, leaves, 4, columns, undefined, precision);
      const halves = [0, 2].map((first) => {
        const from = k.tensor([samples, columns]);
        const own = leaves
          .slice(first, first + 2)
          .map((leaf, i) => ({ ...leaf, tree: { first: i, count: 1 } }));
        k.foldPooled(from, 0, own, 2, columns, undefined, precision);
        return { from, first: 0, tree: { first, count: 2 } };
      });
      const again = k.tensor([samples, columns]);
      k.foldPooled(again, 0, halves, 4, columns, undefined, precision);
      t.deepEqual(list(k, again), list(k, whole), precision);
    }
  },

  "tiles and parts that do not fit are refused": (t, k) => {
    const shape = { rows: 4, dim: 32, pooling: "sum", rowBlocks: 2, stateWidth: 1 } as const;
    const message = /whole quanta/;
    t.throws(() => k.rows({ ...shape, firstColumn: 16, tableDim: 64 }), { message });
    t.throws(() => k.rows({ ...shape, dim: 16, tableDim: 64 }), { message });
    t.throws(() => k.rows({ ...shape, firstColumn: 64, tableDim: 64 }), { message: /columns/ });
    t.throws(() => k.rows({ ...shape, blockRows: 1 }), { message: /at most 2 blocks of 1 rows/ });
    const tile = k.rows({ ...shape, tableDim: 64 });
    const bags = { tables: 1, samples: 1, offsets: Int32Array.of(0, 1), ids: Int32Array.of(0) };
    const d = k.tensor([1, 32]);
    const slices = slicesOf(0, 1, 1, 1);
    const update = (kind: "rowWiseAdagrad" | "lamb", rows: Rows) => () =>
      k.updateRows([rows], bags, d, slices, [ruleOf(kind, 0)]);
    t.throws(update("rowWiseAdagrad", tile), { message: /means of squares for 32 of 64/ });
    const given = (rows: number) => () => {
      const sums = { means: new Float32Array(rows) };
      k.updateRows([tile], bags, d, slices, [ruleOf("rowWiseAdagrad", 0)], [sums]);
    };
    t.notThrows(given(1));
    t.throws(given(2), { message: /a sum for each of 1 distinct rows, got 2/ });
    const wide = k.rows({ ...shape, stateWidth: 64, tableDim: 64 });
    t.throws(update("lamb", wide), { message: /trust ratios for 32 of 64/ });
    const out = k.tensor([1, 32]);
    const fold = (first: number, count: number) => () =>
      k.foldPooled(out, 0, [{ from: d, first: 0, tree: { first, count } }], 4, 32);
    t.throws(fold(1, 2), { message: /aligned run of blocks/ });
    t.throws(fold(4, 1), { message: /aligned run of blocks/ });
    t.throws(() => k.rowMeans([new Float32Array(3)], [2], 64), { message: /whole rows of quanta/ });
    t.throws(() => k.shareColumns(out, 0, d, 1, 32, Int32Array.of(1)), {
      message: /the columns from fromFirst of shareColumns/,
    });
    const lengths = new Int32Array(2);
    t.throws(() => k.shareColumns(out, 0, d, 0, 32, lengths), { message: /rows|lengths/ });
  },

  "a table and a tile may have no rows": (t, k) => {
    for (const precision of precisions) {
      const shape = { rows: 0, dim: 40, pooling: "mean", rowBlocks: 2, stateWidth: 1 } as const;
      const rows = k.rows({ ...shape, precision });
      k.born(rows, key, 1, 1);
      const bags = { tables: 1, samples: 2, offsets: new Int32Array(3), ids: new Int32Array() };
      const out = of(k, [2, 40], new Array<number>(80).fill(1));
      k.pool(out, [rows], bags, 0, 2);
      t.deepEqual(list(k, out), new Array<number>(80).fill(0));
      const rounding = { key, purpose: 1, step: 1 };
      const rule = { ...ruleOf("rowWiseAdagrad", 0.1), rounding };
      const slices = slicesOf(0, 1, 1, 2);
      t.is(k.updateRows([rows], bags, out, slices, [rule]), -1);
      t.is(k.rowSquares([rows], bags, out, 0, slices, [rule]).length, 0);
      t.is(k.readRows(rows, 0, 0).length, 0);
      k.dRows([k.tensor([0, 40])], [k.tensor([0])], [rows], bags, out, 0, slices);
      t.true(k.applyRows(rows, k.tensor([0, 40]), k.tensor([0]), rule, true));
    }
  },
};
