// Checkpoint parts with the rows of a table, and the table's digest.

import test from "ava";
import { decodeRows, encodeRows } from "../../../src/embedding/checkpoint/rows-part.ts";
import { leavesOf, modelDigest, tableDigest } from "../../../src/embedding/rows/digest.ts";
import type { RowRecords } from "../../../src/embedding/rows/row-records.ts";
import { CheckpointCorruptError } from "../../../src/errors/errors.ts";
import type { StateShape } from "../../../src/kernels/contract/kernels.ts";
import { bytesOf } from "../../helpers/devices/parts.ts";
import { fc } from "../../helpers/properties.ts";

const [dim, width] = [40, 40];
const expect = { dim, width, path: "table-00000" };
const spec = { rows: 100, dim, rowBlocks: 4 as const };
const whole = { firstBlock: 0, blocks: 4, firstQuantum: 0, quanta: 2, columns: dim };

/** The digest of the table, as one shard. */
async function digestOf(state: StateShape, records: Iterable<RowRecords>): Promise<string> {
  return tableDigest([{ ...whole, leaves: await leavesOf(whole, spec, state, records) }]);
}

const oneEach = { perElement: 1, perRow: 0 };

/**
 * Records of the rows, cut into chunks of `chunk` rows; the numbers of a row depend on the row
 * alone.
 */
function recordsOf(rows: readonly number[], chunk: number, change = 0): RowRecords[] {
  const chunks: RowRecords[] = [];
  for (let at = 0; at < rows.length; at += chunk) {
    const part = rows.slice(at, at + chunk);
    const floats = (columns: number, salt: number) =>
      Float32Array.from(
        part.flatMap((row) => Array.from({ length: columns }, (_, c) => row + c / 64 + salt)),
      );
    chunks.push({
      rows: Int32Array.from(part),
      weights: floats(dim, change),
      state: floats(width, 0.5),
    });
  }
  return chunks;
}

async function partOf(records: readonly RowRecords[]): Promise<Uint8Array> {
  return new Uint8Array(await bytesOf(encodeRows(dim, width, records)));
}

function flat(records: Iterable<RowRecords>) {
  const all = [...records];
  return {
    rows: all.flatMap((chunk) => [...chunk.rows]),
    weights: all.flatMap((chunk) => [...chunk.weights]),
    state: all.flatMap((chunk) => [...chunk.state]),
  };
}

const noRecords: RowRecords = {
  rows: new Int32Array(),
  weights: new Float32Array(),
  state: new Float32Array(),
};
const someRows = fc.uniqueArray(fc.nat(99)).map((rows) => rows.sort((a, b) => a - b));

test("rows are read back from a part unchanged, however they were chunked", async (t) => {
  await fc.assert(
    fc.asyncProperty(someRows, fc.integer({ min: 1, max: 30 }), async (rows, chunk) => {
      const records = recordsOf(rows, chunk);
      // A chunk may be empty: in a piece of a dynamic table, no row may have an id.
      const cut = records.flatMap((one) => [noRecords, one, noRecords]);
      t.deepEqual(flat(decodeRows(await partOf(cut), expect)), flat(records));
    }),
  );
});

test("the digest of a table depends neither on chunks nor on a trip through a part", async (t) => {
  await fc.assert(
    fc.asyncProperty(someRows, fc.integer({ min: 1, max: 30 }), async (rows, chunk) => {
      const expected = await digestOf(oneEach, recordsOf(rows, 100));
      t.is(await digestOf(oneEach, recordsOf(rows, chunk)), expected);
      const back = decodeRows(await partOf(recordsOf(rows, chunk)), expect);
      t.is(await digestOf(oneEach, back), expected);
    }),
  );
});

test("the digest changes with a single weight, state or initialised row", async (t) => {
  const rows = [1, 5, 26, 99];
  const digest = (records: readonly RowRecords[]) => digestOf(oneEach, records);
  const before = await digest(recordsOf(rows, 2));
  const weight = recordsOf(rows, 2);
  weight[1]?.weights.fill(0, 39, 40);
  const state = recordsOf(rows, 2);
  state[0]?.state.fill(0, 79, 80);
  const others = [weight, state, recordsOf([1, 5, 26], 2), recordsOf([1, 5, 27, 99], 2)];
  t.is(new Set([before, ...(await Promise.all(others.map(digest)))]).size, 5);
});

test("the digest covers every column of weights and of state", async (t) => {
  const digests = new Set([await digestOf(oneEach, recordsOf([7], 1))]);
  for (let column = 0; column < dim; column++) {
    for (const part of ["weights", "state"] as const) {
      const [records] = recordsOf([7], 1);
      if (records === undefined) return t.fail();
      records[part].fill(-1, column, column + 1);
      digests.add(await digestOf(oneEach, [records]));
    }
  }
  t.is(digests.size, 1 + 2 * dim);
});

test("row-wise state has a leaf of its own in the digest", async (t) => {
  const records = (state: number): RowRecords[] => [
    { rows: Int32Array.of(3), weights: new Float32Array(dim), state: Float32Array.of(state) },
  ];
  const state = { perElement: 0, perRow: 1 };
  t.not(await digestOf(state, records(1)), await digestOf(state, records(2)));
  t.is(await digestOf(state, records(1)), await digestOf(state, records(1)));
});

test("a table's digest is computed from its shards, for any sharding", async (t) => {
  const state = { perElement: 1, perRow: 1 };
  const rows = [0, 1, 24, 25, 60, 99];
  const numbers = (row: number, width: number, from: number) =>
    Array.from({ length: width }, (_, c) => row + (from + c) / 64);
  // Columns first .. end-1 of rows firstRow .. endRow-1, with as much of their state.
  const shard = async (block: number, blocks: number, quantum: number, quanta: number) => {
    const first = quantum * 32;
    const columns = Math.min(dim, (quantum + quanta) * 32) - first;
    const own = rows.filter((row) => row >= block * 25 && row < (block + blocks) * 25);
    const records = {
      rows: Int32Array.from(own),
      weights: Float32Array.from(own.flatMap((row) => numbers(row, columns, first))),
      state: Float32Array.from(own.flatMap((row) => [...numbers(-row, columns, first), row / 3])),
    };
    const tile = { firstBlock: block, blocks, firstQuantum: quantum, quanta, columns };
    return { ...tile, leaves: await leavesOf(tile, spec, state, [records]) };
  };
  const cut = (...tiles: readonly [number, number, number, number][]) =>
    Promise.all(tiles.map((tile) => shard(...tile)));
  const expected = tableDigest(await cut([0, 4, 0, 2]));
  t.is(tableDigest(await cut([0, 4, 0, 1], [0, 4, 1, 1])), expected);
  t.is(tableDigest(await cut([2, 2, 0, 2], [1, 1, 0, 2], [0, 1, 0, 2])), expected);
  const grid = await cut([0, 2, 0, 1], [2, 2, 0, 1], [0, 2, 1, 1], [2, 2, 1, 1]);
  t.is(tableDigest(grid), expected);
  const right = await shard(0, 4, 1, 1);
  const other = { ...right, leaves: right.leaves.map(() => "00".repeat(32)) };
  // Row-wise state must be equal on all shards that have columns of the row.
  const first = await shard(0, 4, 0, 1);
  t.throws(() => tableDigest([first, other]));
});

test("the digest of a model depends on the order of its tables", async (t) => {
  const [dense, a, b] = ["11", "22", "33"].map((byte) => byte.repeat(32));
  if (dense === undefined || a === undefined || b === undefined) return t.fail();
  t.not(modelDigest(dense, [a, b]), modelDigest(dense, [b, a]));
  t.regex(modelDigest(dense, []), /^[0-9a-f]{64}$/);
});

test("a part is read from any bytes, those of a Buffer included", async (t) => {
  const records = recordsOf([2, 3], 2);
  const bytes = await partOf(records);
  for (const shift of [1, 2, 4]) {
    const memory = Buffer.alloc(bytes.length + shift);
    memory.set(bytes, shift);
    t.deepEqual(flat(decodeRows(memory.subarray(shift), expect)), flat(records));
  }
});

test("a part is read in pieces of any size that reuse one memory", async (t) => {
  const records = recordsOf([2, 3, 5, 9, 40], 2);
  const bytes = await partOf(records);
  const rows: number[] = [];
  const weights: number[] = [];
  for (const size of [1, 3, 7, 64, 200, bytes.length]) {
    rows.length = 0;
    weights.length = 0;
    const buffer = new Uint8Array(size);
    const pieces = function* () {
      for (let at = 0; at < bytes.length; at += size) {
        const piece = buffer.subarray(0, Math.min(size, bytes.length - at));
        piece.set(bytes.subarray(at, at + size));
        yield piece;
        buffer.fill(255);
      }
    };
    for (const chunk of decodeRows(pieces(), expect)) {
      rows.push(...chunk.rows);
      weights.push(...chunk.weights);
    }
    t.deepEqual(rows, flat(records).rows, `${size}`);
    t.deepEqual(weights, flat(records).weights, `${size}`);
  }
});

const damages: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
  "cut short": (bytes) => bytes.subarray(0, bytes.length - 1),
  "cut to nothing": () => new Uint8Array(3),
  "with more behind its end": (bytes) => new Uint8Array([...bytes, 0, 0, 0, 0]),
  "of another kind": (bytes) => bytes.fill(0, 0, 4),
  "of another dim": (bytes) => bytes.fill(7, 8, 9),
  "with a chunk beyond its end": (bytes) => bytes.fill(255, 16, 20),
  "with a negative row": (bytes) => bytes.fill(255, 20, 24),
  "with rows out of order": (bytes) => bytes.fill(0, 24, 28),
};

test("a row beyond the table is refused with the table's rows", async (t) => {
  const bytes = await partOf(recordsOf([4, 9], 2));
  t.is([...decodeRows(bytes, { ...expect, rows: 10 })].length, 1);
  t.throws(() => [...decodeRows(bytes, { ...expect, rows: 9 })], {
    instanceOf: CheckpointCorruptError,
    message: /it has row 9 of a table of 9 rows/,
  });
});

for (const [what, damage] of Object.entries(damages)) {
  test(`a part ${what} is refused with its name`, async (t) => {
    const bytes = damage(await partOf(recordsOf([4, 9], 2)));
    const error = t.throws(() => [...decodeRows(bytes, expect)], {
      instanceOf: CheckpointCorruptError,
    });
    t.is(error?.path, "table-00000");
  });
}
