// A shard as devices of a generation hold it, with its lookups: one lookup for each feature of the
// shard's table.

import type { BagShard } from "../../embedding/lookup/bag-frames.ts";
import type { Shard } from "../../embedding/tables/shards.ts";
import type { Pooling } from "../../kernels/contract/kernels.ts";
import type { Lookup } from "../../model/features.ts";

/** A shard, and its lookups among those of its device, or among those of the replicated shards. */
export interface HeldShard extends Shard {
  readonly lookups: readonly HeldLookup[];
}

/** A lookup in a shard: one bag a sample, and one vector of the shard's columns. */
export interface HeldLookup extends Shard, BagShard {
  readonly pooling: Pooling;
  readonly axis: number;
  /**
   * First column of its vectors in the concatenation of the lookups of all shards of the device.
   */
  readonly column: number;
  /** The range of columns of all lookups in its shard. */
  readonly ofShard: { readonly column: number; readonly columns: number };
}

/** The facts about a table that `heldShards` needs. */
export interface HeldTable {
  readonly rows: number;
  /** Whether any 64-bit id has a row of its own. */
  readonly isDynamic: boolean;
  /** The lookups in the table, with their indices in the job. */
  readonly lookups: readonly (Lookup & {
    readonly lookup: number;
    readonly isWeighted: boolean;
    readonly axis: number;
  })[];
}

/**
 * Adds to the shards of one device, or to the replicated shards, their lookups and the columns of
 * these lookups, side by side.
 */
export function heldShards(
  shards: readonly Shard[],
  tableOf: (table: number) => HeldTable,
): HeldShard[] {
  let column = 0;
  return shards.map((shard): HeldShard => {
    const { rows, isDynamic, lookups } = tableOf(shard.table);
    const blocks = { first: shard.firstBlock, count: shard.blocks };
    const idBlocks = isDynamic ? blocks : undefined;
    const isWhole = shard.rows === rows;
    const ofShard = { column, columns: lookups.length * shard.columns };
    const held = lookups.map(({ lookup, pooling, isWeighted, axis }, i): HeldLookup => {
      // Field by field: to spread two objects takes several times as long, and there are many.
      return {
        firstBlock: shard.firstBlock,
        blocks: shard.blocks,
        firstQuantum: shard.firstQuantum,
        quanta: shard.quanta,
        name: shard.name,
        firstRow: shard.firstRow,
        rows: shard.rows,
        firstColumn: shard.firstColumn,
        columns: shard.columns,
        shard: shard.shard,
        table: shard.table,
        device: shard.device,
        tier: shard.tier,
        cache: shard.cache,
        lookup,
        pooling,
        axis,
        isWhole,
        isWeighted,
        idBlocks,
        ofShard,
        column: ofShard.column + i * shard.columns,
      };
    });
    column += ofShard.columns;
    return { ...shard, lookups: held };
  });
}
