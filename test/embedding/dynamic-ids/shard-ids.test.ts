// Dynamic ids against a plain Map: the row of each id, for any order of arrival.

import test from "ava";
import {
  encodeIds,
  idLeavesOf,
  idLeavesOfPart,
  restoreIds,
} from "../../../src/embedding/checkpoint/ids-part.ts";
import { ShardIds } from "../../../src/embedding/dynamic-ids/shard-ids.ts";
import { type DynamicSpec, dynamicOptions } from "../../../src/embedding/tables/dynamic-options.ts";
import { tableOptions } from "../../../src/embedding/tables/options.ts";
import { extentOf } from "../../../src/embedding/tables/shards.ts";
import { CheckpointCorruptError, FrameCorruptError } from "../../../src/errors/errors.ts";
import { keyOf, purposes } from "../../../src/ports/random.ts";
import { PlainIds } from "../../helpers/batches/plain-ids.ts";
import { edges, halvesOf, mix64 } from "../../helpers/batches/wide-ids.ts";
import { fc } from "../../helpers/properties.ts";

const key = keyOf(5);
const table = 3;

interface Shape {
  readonly rows: number;
  readonly rowBlocks: 1 | 2 | 4 | 8;
}

/** Creates the id map of some blocks of a table; of all blocks by default. */
function idsOf(shape: Shape, dynamic: DynamicSpec, firstBlock = 0, blocks?: number): ShardIds {
  const spec = tableOptions.parse({ name: "user", dim: 4, ...shape });
  const count = blocks ?? shape.rowBlocks;
  const tile = { firstBlock, blocks: count, firstQuantum: 0, quanta: 1 };
  const extent = extentOf(spec, tile);
  const place = { shard: 0, table, device: 0, tier: "memory" as const, cache: undefined };
  const shard = { ...tile, ...extent, ...place };
  return new ShardIds(shard, spec, dynamic, key);
}

function plainOf(shape: Shape, dynamic: DynamicSpec): PlainIds {
  return new PlainIds(shape, dynamic, { key, purpose: purposes.admission + table });
}

const anyId = fc.oneof(
  { weight: 6, arbitrary: fc.bigInt({ min: -20n, max: 20n }) },
  { weight: 1, arbitrary: fc.constantFrom(...edges) },
  { weight: 2, arbitrary: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }) },
);

const anyAdmission = fc.oneof(
  fc.constant({ kind: "all" as const }),
  fc.record({ kind: fc.constant("frequency" as const), count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({
    kind: fc.constant("probability" as const),
    probability: fc.constantFrom(0.1, 0.5, 1),
  }),
);

const anyEviction = fc.oneof(
  fc.record({ kind: fc.constant("lfu" as const), free: fc.constantFrom(0, 0.1, 0.5, 0.9) }),
  fc.record({ kind: fc.constant("age" as const), steps: fc.integer({ min: 1, max: 6 }) }),
);

const anySpec = fc
  .record({
    admission: anyAdmission,
    eviction: anyEviction,
    everySteps: fc.integer({ min: 1, max: 4 }),
  })
  .map((spec) => dynamicOptions.parse(spec));

const anyShape = fc.record({
  rows: fc.integer({ min: 1, max: 40 }),
  rowBlocks: fc.constantFrom(1 as const, 2 as const, 4 as const, 8 as const),
});

const anyHistory = fc.array(fc.array(anyId, { maxLength: 40 }), { maxLength: 14 });

/** Looks up a step's ids; returns their rows, in order. */
function look(ids: ShardIds, step: number, batch: readonly bigint[]): (number | undefined)[] {
  const find = ids.admitting(step);
  return batch.map((id) => rowFrom(find(...halvesOf(id))));
}

function rowFrom(row: number): number | undefined {
  return row < 0 ? undefined : row;
}

function isDue({ everySteps }: DynamicSpec, step: number): boolean {
  return step > 0 && step % everySteps === 0;
}

function bytesOf(ids: ShardIds): Buffer {
  return Buffer.concat([...encodeIds(ids)]);
}

/** The bytes in pieces of 13 bytes, which share their memory. */
function* inPieces(bytes: Uint8Array): Generator<Uint8Array> {
  const memory = new Uint8Array(13);
  for (let at = 0; at < bytes.length; at += memory.length) {
    const piece = bytes.subarray(at, at + memory.length);
    memory.set(piece);
    yield memory.subarray(0, piece.length);
  }
}

test("ids have the rows of a plain Map, under every admission and eviction policy", (t) => {
  fc.assert(
    fc.property(anyShape, anySpec, anyHistory, (shape, spec, history) => {
      const [ids, plain] = [idsOf(shape, spec), plainOf(shape, spec)];
      for (const [step, batch] of history.entries()) {
        if (isDue(spec, step)) t.deepEqual([...ids.evict(step)], plain.decide(step));
        t.deepEqual(look(ids, step, batch), plain.look(step, batch));
      }
      t.deepEqual(ids.counts, plain.counts);
      t.is(ids.size, plain.rows.size);
      const find = ids.reading;
      for (const id of history.flat()) {
        t.is(rowFrom(find(...halvesOf(id))), plain.rows.get(id)?.row);
      }
      t.deepEqual(ids.counts, plain.counts, "reading changes no counter");
    }),
    { numRuns: 400 },
  );
});

test("a table that grows and evicts finds each of thousands of ids", (t) => {
  const shape = { rows: 5000, rowBlocks: 4 } as const;
  const spec = dynamicOptions.parse({ eviction: { kind: "age", steps: 2 }, everySteps: 1 });
  const ids = idsOf(shape, spec);
  const idOf = (i: number) => BigInt.asIntN(64, mix64(BigInt(i)));
  const has = new Map<bigint, number>();
  for (let step = 0; step < 12; step++) {
    if (step > 0) ids.evict(step);
    const batch = Array.from({ length: 1500 }, (_, i) => idOf(700 * step + i));
    for (const [i, row] of look(ids, step, batch).entries()) {
      t.true(row !== undefined, "there is room for the ids of three steps");
      has.set(batch[i] ?? 0n, row ?? -1);
    }
    t.is(new Set(batch.map((id) => has.get(id))).size, batch.length);
  }
  const find = ids.reading;
  for (let i = 0; i < 700 * 9; i++) t.is(find(...halvesOf(idOf(i))), -1);
  for (let i = 700 * 9 + 800; i < 700 * 11 + 1500; i++) {
    t.is(rowFrom(find(...halvesOf(idOf(i)))), has.get(idOf(i)));
  }
});

test("id maps of any runs of blocks hold together what one device holds", (t) => {
  fc.assert(
    fc.property(anySpec, anyHistory, fc.integer({ min: 1, max: 3 }), (spec, history, cut) => {
      const shape = { rows: 21, rowBlocks: 4 } as const;
      const whole = idsOf(shape, spec);
      const parts = [idsOf(shape, spec, 0, cut), idsOf(shape, spec, cut, 4 - cut)];
      const partOf = (id: bigint) => (Number(mix64(id) % 4n) < cut ? 0 : 1);
      for (const [step, batch] of history.entries()) {
        if (isDue(spec, step)) for (const one of [whole, ...parts]) one.evict(step);
        look(whole, step, batch);
        for (const [i, part] of parts.entries()) {
          look(
            part,
            step,
            batch.filter((id) => partOf(id) === i),
          );
        }
      }
      t.deepEqual(parts.flatMap(idLeavesOf), idLeavesOf(whole));
    }),
  );
});

test("restored ids continue like the saved ones, for any cut of the blocks", (t) => {
  fc.assert(
    fc.property(anySpec, anyHistory, anyHistory, (spec, before, after) => {
      const shape = { rows: 21, rowBlocks: 4 } as const;
      const whole = idsOf(shape, spec);
      const run = (ids: ShardIds, history: readonly bigint[][], first: number) => {
        for (const [i, batch] of history.entries()) {
          if (isDue(spec, first + i)) ids.evict(first + i);
          look(ids, first + i, batch);
        }
      };
      run(whole, before, 0);
      const saved = bytesOf(whole);
      const again = idsOf(shape, spec);
      restoreIds([again], inPieces(saved), "ids");
      t.deepEqual(bytesOf(again), saved);
      const halves = [idsOf(shape, spec, 0, 2), idsOf(shape, spec, 2, 2)];
      restoreIds(halves, inPieces(saved), "ids");
      t.deepEqual(halves.flatMap(idLeavesOf), idLeavesOf(whole));
      t.deepEqual(idLeavesOfPart(inPieces(saved), "ids"), idLeavesOf(whole));
      const joined = idsOf(shape, spec);
      for (const half of halves) restoreIds([joined], bytesOf(half), "ids");
      run(whole, after, before.length);
      run(again, after, before.length);
      run(joined, after, before.length);
      t.deepEqual(bytesOf(again), bytesOf(whole));
      t.deepEqual(bytesOf(joined), bytesOf(whole));
    }),
  );
});

test("probabilistic admission admits its share of occurrences, other ones in each step", (t) => {
  const spec = dynamicOptions.parse({ admission: { kind: "probability", probability: 0.2 } });
  const ids = idsOf({ rows: 10_000, rowBlocks: 2 }, spec);
  const batch = Array.from({ length: 5000 }, (_, i) => BigInt(i));
  look(ids, 0, batch);
  const first = ids.counts.admitted;
  t.true(Math.abs(first - 1000) < 120, `${first}`);
  look(ids, 1, batch);
  t.true(Math.abs(ids.counts.admitted - first - 800) < 120, `${ids.counts.admitted}`);
});

test("a damaged part is refused, and so is an id of a block that the shard lacks", (t) => {
  const shape = { rows: 8, rowBlocks: 2 } as const;
  const ids = idsOf(shape, dynamicOptions.parse({}));
  look(ids, 0, [1n, 2n, 3n]);
  const bytes = bytesOf(ids);
  const spoilt = Buffer.from(bytes);
  spoilt.writeInt32LE(100, 4 * 6); // The row of the first id.
  const repeated = Buffer.from(bytes);
  repeated.writeInt32LE(0, 4 * 7); // That of the second one.
  for (const [damaged, why] of [
    [bytes.subarray(0, bytes.length - 4), "ends too early"],
    [Buffer.concat([bytes, Buffer.alloc(4)]), "bytes after its end"],
    [Buffer.alloc(40), "does not begin as"],
    [spoilt, "row 100 of block 0, after row -1 of a block that has 4"],
    [repeated, "row 0 of block 0, after row 0"],
  ] as const) {
    const error = t.throws(
      () => restoreIds([idsOf(shape, dynamicOptions.parse({}))], damaged, "p"),
      {
        instanceOf: CheckpointCorruptError,
      },
    );
    t.true(error.message.includes(why), error.message);
  }
  const second = idsOf(shape, dynamicOptions.parse({}), 1, 1);
  const stray = [0n, 1n, 2n, 3n, 4n, 5n].find((id) => mix64(id) % 2n === 0n) ?? 0n;
  t.throws(() => second.reading(...halvesOf(stray)), { instanceOf: FrameCorruptError });
});
