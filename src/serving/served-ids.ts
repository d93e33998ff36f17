// Maps the dynamic ids of a served table to rows. The ids of a version do not change; the map of
// the next version is built beside it, in increments.

import { mix64Low } from "../data/murmur-hash.ts";
import { IdTable } from "../embedding/dynamic-ids/id-table.ts";
import { blockOf, type FindRow } from "../embedding/dynamic-ids/shard-ids.ts";
import type { TableSpec } from "../embedding/tables/options.ts";
import { blockRowsOf } from "../embedding/tables/shards.ts";

export interface IdRow {
  readonly row: number;
  readonly id: bigint;
}

export class ServedIds {
  readonly #blocks: readonly IdTable[];
  readonly #rowBlocks: number;
  readonly #blockRows: number;
  readonly #words = new Int32Array([0, 0, 1, 1]);

  /** Allocates an empty map for each row block of a table. */
  constructor(spec: Pick<TableSpec, "rows" | "rowBlocks">) {
    this.#rowBlocks = spec.rowBlocks;
    this.#blockRows = blockRowsOf(spec);
    this.#blocks = Array.from({ length: spec.rowBlocks }, () => new IdTable(this.#blockRows));
  }

  get size(): number {
    return this.#blocks.reduce((sum, block) => sum + block.size, 0);
  }

  /** The row of an id; -1: the id has no row. */
  readonly find: FindRow = (low, high) => {
    const hash = mix64Low(low, high);
    const at = blockOf(hash, this.#rowBlocks);
    const row = this.#blocks[at]?.find(low, high, hash) ?? -1;
    return row < 0 ? -1 : at * this.#blockRows + row;
  };

  /** Assigns a free row to a new id. If rows come in descending order, memory grows only once. */
  put({ row, id }: IdRow): void {
    const block = Math.floor(row / this.#blockRows);
    this.#words[0] = Number(BigInt.asIntN(32, id));
    this.#words[1] = Number(BigInt.asIntN(32, id >> 32n));
    this.#blocks[block]?.put(row - block * this.#blockRows, this.#words);
  }

  /** All ids with their rows, in descending order of rows within each block. */
  *descending(): Generator<IdRow, void, undefined> {
    for (const [block, own] of this.#blocks.entries()) {
      const entries = own.entries();
      for (let i = entries.length - 1; i >= 0; i--) {
        const entry = entries[i] ?? 0;
        const words = own.wordsOf(Int32Array.of(entry));
        yield { row: block * this.#blockRows + entry, id: idOf(words[0] ?? 0, words[1] ?? 0) };
      }
    }
  }
}

function idOf(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low >>> 0);
}
