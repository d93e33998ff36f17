// A sparse server: shards of rows in memory, each a slab whose rows are looked up one by one.
//
// Invariants
//   P1. Each piece of a push is applied once, even if its sender repeats it: the server remembers
//       the pieces of each sender's last `pushesMax` batches, and senders repeat only those (Q1 of
//       clients.ts).
//   P2. A piece is applied as a whole: no other call sees a part of it.

import { createSlab, type Slab } from "../embedding/rows/slab.ts";
import type { TableSpec } from "../embedding/tables/options.ts";
import { roundedRule, rowRuleOf } from "../embedding/tables/row-rule.ts";
import type { Shard } from "../embedding/tables/shards.ts";
import { FrameCorruptError, NonFiniteGradientError } from "../errors/errors.ts";
import type { Bags, Kernels, Tensor } from "../kernels/contract/kernels.ts";
import { slicesOf } from "../kernels/contract/slices.ts";
import { keyOf } from "../ports/random.ts";
import { tableOfPart } from "../training/checkpoint/part-names.ts";
import { restoreRows, rowsPartsOf } from "../training/checkpoint/table-parts.ts";
import type { Recipe } from "../training/step/device-state.ts";
import type { PushId, ShardRows, SparseServer } from "./parameter-servers.ts";

export interface SparseServerOptions {
  readonly kernels: Kernels;
  readonly tables: readonly TableSpec[];
  /** The shards of this server. */
  readonly shards: readonly Shard[];
  readonly recipe: Pick<Recipe, "optimizer" | "seed">;
  /** Most batches of a sender with unconfirmed pushes. */
  readonly pushesMax: number;
}

/** Creates a server with initial rows. */
export function createSparseServer(options: SparseServerOptions): SparseServer {
  const { kernels, tables, shards, recipe, pushesMax } = options;
  const { sparse } = recipe.optimizer;
  const key = keyOf(recipe.seed);
  const lookups = [{ pooling: "sum" as const }];
  const slabs = shards.map((shard) => {
    const own = { kernels, specs: tables, optimizer: sparse, key };
    return createSlab({ ...own, shards: [{ ...shard, lookups }] });
  });
  const held = new Map(shards.map((shard, i) => [shard.shard, { shard, slab: slabs[i] as Slab }]));
  const scratch = scratchOf(kernels);
  const singleBags = singleBagsOf();
  /** The pieces that were applied, by sender and number of the batch. */
  const senders = new Map<number, Map<number, Set<number>>>();
  const counts = { updates: 0, updatesSinceCut: 0, rows: 0, duplicates: 0 };

  /** @throws FrameCorruptError where a row lies on another server */
  const heldRows = ({ shard: index, rows }: ShardRows) => {
    const found = held.get(index);
    if (found === undefined) throw new FrameCorruptError("rows", `shard ${index} is not here`);
    const { shard } = found;
    let least = 0;
    for (const row of rows) {
      if (row < least || row >= shard.rows) {
        const order = `rows of \`${shard.name}\` are ascending, below ${shard.rows}`;
        throw new FrameCorruptError("rows", `row ${row}; ${order}`);
      }
      least = row + 1;
    }
    return found;
  };
  /** Whether a piece was not applied before; remembers the piece. P1 */
  const isNew = ({ sender, number, piece }: PushId): boolean => {
    const known = senders.get(sender) ?? new Map<number, Set<number>>();
    senders.set(sender, known);
    const last = Math.max(-1, ...known.keys());
    const pieces = known.get(number) ?? new Set<number>();
    if (number <= last - pushesMax || pieces.has(piece)) return false;
    known.set(number, pieces.add(piece));
    for (const one of known.keys()) if (one <= number - pushesMax) known.delete(one);
    return true;
  };
  return {
    pull: (wanted) =>
      wanted.map(({ shard, rows }) => {
        const { slab } = heldRows({ shard, rows });
        const out = scratch([rows.length, slab.columns]);
        slab.lookup(out, singleBags(rows), 0, rows.length);
        return { shard, rows, vectors: kernels.read(out) };
      }),
    push(id, at, gradients) {
      const checked = gradients.map((own) => {
        const { shard, slab } = heldRows(own);
        const floats = own.rows.length * slab.columns;
        if (own.vectors.length === floats) return { ...own, of: shard, slab };
        const found = `${own.vectors.length} floats of gradients, expected ${floats}`;
        throw new FrameCorruptError("rows", `table \`${shard.name}\`: ${found}`);
      });
      if (!isNew(id)) {
        counts.duplicates++;
        return;
      }
      for (const { of, slab, rows, vectors } of checked) {
        const { table, name } = of;
        const rule = rowRuleOf(sparse, tables[table]?.l2 ?? 0, at);
        const gradient = scratch([rows.length, slab.columns]);
        kernels.write(gradient, vectors);
        const slices = slicesOf(0, 1, 1, rows.length);
        const rules = [roundedRule(rule, key, table, at.step)];
        if (slab.update(singleBags(rows), gradient, slices, rules) >= 0) {
          throw new NonFiniteGradientError(at.step, `table \`${name}\``, []);
        }
        counts.rows += rows.length;
      }
      counts.updates++;
      counts.updatesSinceCut++;
    },
    cut() {
      counts.updatesSinceCut = 0;
      return slabs
        .flatMap((slab) => rowsPartsOf({ tables, sparse }, slab))
        .map((part) => {
          return { ...part, isWhole: true };
        });
    },
    async restore(name, layers) {
      const table = tableOfPart(name, tables)?.table;
      const own = slabs.filter((_, i) => shards[i]?.table === table);
      await restoreRows({ tables, sparse, slabs: own }, name, layers);
    },
    counts,
  };
}

/** Makes bags of one id each. Their offsets are kept in memory that only grows. */
function singleBagsOf(): (rows: Int32Array) => Bags<Int32Array> {
  let offsets = new Int32Array(0);
  return (rows) => {
    const { length } = rows;
    if (offsets.length <= length) {
      offsets = new Int32Array(Math.ceil(1.5 * (length + 1)));
      for (let i = 0; i < offsets.length; i++) offsets[i] = i;
    }
    return { tables: 1, samples: length, offsets: offsets.subarray(0, length + 1), ids: rows };
  };
}

/** Returns an allocator of scratch tensors in one memory; each is valid until the next call. */
export function scratchOf(kernels: Kernels): (shape: readonly [number, number]) => Tensor {
  let floats = 0;
  let memory = kernels.tensor([0]);
  return ([rows, columns]) => {
    if (floats < rows * columns) {
      floats = Math.ceil(1.5 * rows * columns);
      memory = kernels.tensor([floats]);
    }
    return kernels.reshape(memory, [rows, columns]);
  };
}
