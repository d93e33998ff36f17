// Rows that outlive their thread: wherever a thread ends, its successor gets the rows of the last
// cut or of the cut before, to the byte; or initial rows if an undo log cannot restore the cut.

import test from "ava";
import { RowKeeper } from "../../../src/embedding/rows/row-keeper.ts";
import { createSlab, type Slab, type SlabShard } from "../../../src/embedding/rows/slab.ts";
import type { CutId } from "../../../src/embedding/rows/undo-log.ts";
import { initialCut } from "../../../src/embedding/rows/undo-log.ts";
import { sparseOptimizerOptions, tableOptions } from "../../../src/embedding/tables/options.ts";
import { rowRuleOf } from "../../../src/embedding/tables/row-rule.ts";
import { shardsOf } from "../../../src/embedding/tables/shards.ts";
import { slicesOf } from "../../../src/kernels/contract/slices.ts";
import { createNative } from "../../../src/kernels/native/native.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { keyOf } from "../../../src/ports/random.ts";
import { fc } from "../../helpers/properties.ts";

const specs = [
  tableOptions.parse({ name: "a", rows: 50, dim: 8 }),
  tableOptions.parse({ name: "b", rows: 9, dim: 3, precision: "float16" }),
  tableOptions.parse({ name: "c", rows: 40, dim: 40, precision: "int8" }),
];
const optimizer = sparseOptimizerOptions.parse({ kind: "rowWiseAdagrad", learningRate: 0.1 });
const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, scheme: "table-wise", tier: "memory" };
const placed = specs.map(({ name, dim }) => {
  return { table: name, ...tile, quanta: Math.ceil(dim / 32), device: 0 } as const;
});
const shards: SlabShard[] = shardsOf(specs, {
  devices: { hosts: 1, perHost: 1 },
  shards: placed as Parameters<typeof shardsOf>[1]["shards"],
}).map((shard) => ({ ...shard, lookups: [{ pooling: "sum" }] }));

/** A device of a new generation, with the tiles of a former device. */
function begin(of: {
  readonly native: boolean;
  readonly given?: ReturnType<RowKeeper["tiles"]>;
  readonly at?: CutId;
  readonly undoBytes?: number;
}) {
  const { given = [], at = initialCut, undoBytes = 1 << 20 } = of;
  const keeper = new RowKeeper({ given, at, undoBytes, name: `${at.generation}`, rank: 0 });
  const kernels = (of.native ? createNative() : undefined) ?? createReference("float32");
  const key = keyOf(3);
  const slab = createSlab({ kernels, specs, shards, optimizer, key, hasIncrements: true, keeper });
  keeper.begin();
  return { keeper, slab, kernels };
}

type Device = ReturnType<typeof begin>;

/** Trains a step on these rows, one list for each table. */
function step({ slab, kernels }: Device, rows: readonly (readonly number[])[]): void {
  const ids = shards.map(({ rows: n }, i) => (rows[i] ?? []).map((row) => row % n));
  const offsets = Int32Array.of(0, ...ids.map((_, i) => ids.slice(0, i + 1).flat().length));
  const bags = { tables: shards.length, samples: 1, offsets, ids: Int32Array.from(ids.flat()) };
  const dPooled = kernels.tensor([1, slab.columns]);
  kernels.fill(dPooled, 0.25);
  const rounding = { key: keyOf(3), purpose: 900, step: ids.flat().length };
  const rule = { ...rowRuleOf(optimizer, 0, { step: 1, plateau: 1 }), rounding };
  slab.update(bags, dPooled, slicesOf(0, 1, 1, 1), [rule, rule, rule]);
}

/** Completes a cut; returns whether the undo log had been full, for the first time. */
async function cut({ slab, keeper }: Device, id: CutId, isWhole: boolean): Promise<boolean> {
  keeper.beginCut(isWhole);
  for (const at of shards.keys()) {
    for await (const _ of slab.cut(at, isWhole ? "whole" : "sinceBaseline")) {
      // Reading the rows marks them as cut.
    }
  }
  return keeper.endCut(id);
}

/** The rows as a cut saves them: weights, state, marks, and the leaves of the digest. */
function stateOf({ slab, kernels }: Device, withMarks = true) {
  return slab.rowsOf.map((rows, at) => ({
    weights: kernels.readRows(rows, 0, rows.rows),
    state: kernels.read(rows.state),
    touched: withMarks ? Uint8Array.from(rows.touched) : rows.touched.map((mark) => +(mark > 0)),
    leaves: slab.leaves(at),
  }));
}

/** Changes some of the rows like an update that is interrupted. */
function tear(slab: Slab, rows: readonly (readonly number[])[]): void {
  for (const [at, own] of slab.rowsOf.entries()) {
    const all = (rows[at] ?? []).map((row) => row % own.rows);
    slab.changing(at, Int32Array.from(all));
    for (const row of all.slice(0, all.length / 2)) own.touched[row] = 1;
  }
}

const rowLists = fc.array(fc.array(fc.nat(49), { maxLength: 20 }), { minLength: 3, maxLength: 3 });
const [first, second] = [1, 2].map((at) => ({ generation: 1, cut: 10 * at }));

for (const native of [false, true]) {
  test(`rows are reset to the last or second last cut, native: ${native}`, async (t) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(rowLists, { maxLength: 3 }),
        fc.array(rowLists, { maxLength: 3 }),
        fc.array(rowLists, { maxLength: 3 }),
        fc.record({ torn: rowLists, isWhole: fc.boolean(), isLast: fc.boolean() }),
        async (before, between, after, { torn, isWhole, isLast }) => {
          if (first === undefined || second === undefined) throw new Error("There are two cuts");
          const device = begin({ native });
          for (const rows of before) step(device, rows);
          await cut(device, first, true);
          const atFirst = stateOf(device, isLast || !isWhole);
          for (const rows of between) step(device, rows);
          await cut(device, second, isWhole);
          const atSecond = stateOf(device);
          for (const rows of after) step(device, rows);
          tear(device.slab, torn);
          const given = device.keeper.tiles();
          const at = isLast ? second : first;
          // The first successor ends before it has reported its rows.
          begin({ native, given, at });
          const next = begin({ native, given, at });
          t.is(next.keeper.inPlace.size, shards.length);
          t.is(next.keeper.unmarked.size > 0, !isLast && isWhole);
          t.deepEqual(stateOf(next, isLast || !isWhole), isLast ? atSecond : atFirst);
          // The second successor trains on as if no thread had ended.
          for (const rows of after) step(next, rows);
          await cut(next, { generation: 2, cut: 30 }, false);
          const again = begin({ native, given: next.keeper.tiles(), at });
          t.is(again.keeper.inPlace.size, shards.length);
          t.deepEqual(stateOf(again, isLast || !isWhole), isLast ? atSecond : atFirst);
        },
      ),
      { numRuns: 40 },
    );
  });
}

test("rows get initial values if an undo log cannot restore the requested cut", async (t) => {
  const fresh = stateOf(begin({ native: false }));
  const rows = specs.map(({ rows: n }) => Array.from({ length: n }, (_, row) => row));
  const full = begin({ native: false, undoBytes: 1024 });
  step(full, rows);
  const afterFull = begin({ native: false, given: full.keeper.tiles() });
  t.is(afterFull.keeper.inPlace.size, 0);
  t.deepEqual(stateOf(afterFull), fresh);
  // The next cut empties the log.
  const cutId = { generation: 1, cut: 5 };
  t.true(await cut(full, cutId, true));
  t.is(begin({ native: false, given: full.keeper.tiles(), at: cutId }).keeper.inPlace.size, 3);
  step(full, rows);
  t.false(await cut(full, { generation: 1, cut: 6 }, true), "only the first full log is reported");

  const other = begin({ native: false });
  step(other, rows);
  await cut(other, cutId, true);
  const strange = { native: false, given: other.keeper.tiles(), at: { generation: 2, cut: 5 } };
  t.deepEqual(stateOf(begin(strange)), fresh);

  const damaged = begin({ native: false });
  step(damaged, rows);
  await cut(damaged, cutId, true);
  const [own] = damaged.slab.rowsOf;
  if (own === undefined) throw new Error("There is a table");
  const weights = damaged.kernels.readRows(own, 7, 1);
  weights[2] = 99;
  damaged.kernels.writeRows(own, 7, weights);
  const given = damaged.keeper.tiles();
  const mended = begin({ native: false, given, at: cutId });
  t.deepEqual([...mended.keeper.inPlace], [1, 2], "the damaged table is not kept");
  t.deepEqual(stateOf(mended)[0], fresh[0]);
  // The mending thread ends before it has restored the damaged table, which has initial rows now:
  // the next thread must not take these for the rows of the cut.
  t.deepEqual([...begin({ native: false, given, at: cutId }).keeper.inPlace], [1, 2]);
});
