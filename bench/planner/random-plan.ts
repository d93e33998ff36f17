// Draws random plans: any cut of any table, on any devices.

import type { TableSpec } from "../../src/embedding/tables/options.ts";
import type { PlacedShard, Plan, Scheme } from "../../src/planner/shards.ts";
import type { RandomStream } from "../../src/ports/random.ts";

/** Probabilities that a table is replicated on every device and, if not, that it is cut. */
export interface Chances {
  readonly copied: number;
  readonly rows: number;
  readonly columns: number;
  /** Tables that may be replicated; left out: all. */
  readonly copyable?: ReadonlySet<string>;
}

export const usual: Chances = { copied: 1 / 6, rows: 1, columns: 1 };

/** Cuts each table at random: by rows first, then each run of rows by columns independently. */
export function randomPlan(
  tables: readonly Pick<TableSpec, "name" | "dim" | "rowBlocks">[],
  devices: number,
  stream: RandomStream,
  chances: Chances = usual,
): Plan {
  const shards = tables.flatMap(({ name, dim, rowBlocks }): PlacedShard[] => {
    const quanta = Math.ceil(dim / 32);
    const place = { table: name, tier: "memory" as const };
    if (stream.uniform() < chances.copied && chances.copyable?.has(name) !== false) {
      const whole = { firstBlock: 0, blocks: rowBlocks, firstQuantum: 0, quanta };
      return [{ ...place, ...whole, scheme: "data-parallel", device: "all" }];
    }
    const rows = stream.uniform() < chances.rows ? runs(rowBlocks, stream) : [[0, rowBlocks]];
    const isCut = stream.uniform() < chances.columns;
    const tiles = rows.flatMap(([firstBlock = 0, blocks = 0]) =>
      (isCut ? runs(quanta, stream) : [[0, quanta]]).map(([firstQuantum = 0, own = 0]) => {
        return { firstBlock, blocks, firstQuantum, quanta: own };
      }),
    );
    const scheme = schemeOf(
      rows.length > 1,
      tiles.some((tile) => tile.quanta < quanta),
    );
    return tiles.map((tile) => ({ ...place, scheme, ...tile, device: stream.below(devices) }));
  });
  return { devices: { hosts: 1, perHost: devices }, shards };
}

/** Name of the sharding scheme that cuts a table by rows, by columns, or by both. */
function schemeOf(byRows: boolean, byColumns: boolean): Scheme {
  if (byRows) return byColumns ? "grid" : "row-wise";
  return byColumns ? "column-wise" : "table-wise";
}

/** Splits 0..count-1 into runs of random lengths. */
function runs(count: number, stream: RandomStream): [first: number, count: number][] {
  const cut: [number, number][] = [];
  for (let first = 0; first < count; ) {
    const length = 1 + stream.below(count - first);
    cut.push([first, length]);
    first += length;
  }
  return cut;
}

/** Slices of each device, any of which may be servers without slices. */
export function randomSlices(slices: number, devices: number, stream: RandomStream): number[] {
  const counts = new Array<number>(devices).fill(0);
  const trainers = 1 + stream.below(devices - 1);
  const first = stream.below(devices);
  for (let slice = 0; slice < slices; slice++) {
    const at = (first + (slice < trainers ? slice : stream.below(trainers))) % devices;
    counts[at] = (counts[at] ?? 0) + 1;
  }
  return counts;
}
