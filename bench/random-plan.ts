// Plans drawn at random: any cut of any table, on any devices.

import type { TableSpec } from "../src/embedding/options.ts";
import type { PlacedShard, Plan, Scheme } from "../src/planner/shards.ts";
import type { RandomStream } from "../src/random.ts";

/** Cuts each table at random places, rows first and each run of rows by columns of its own. */
export function randomPlan(
  tables: readonly Pick<TableSpec, "name" | "dim" | "rowBlocks">[],
  devices: number,
  stream: RandomStream,
): Plan {
  const shards = tables.flatMap(({ name, dim, rowBlocks }): PlacedShard[] => {
    const quanta = Math.ceil(dim / 32);
    const place = { table: name, tier: "memory" as const };
    if (stream.below(6) === 0) {
      const whole = { firstBlock: 0, blocks: rowBlocks, firstQuantum: 0, quanta };
      return [{ ...place, ...whole, scheme: "data-parallel", device: "all" }];
    }
    const scheme: Scheme = "grid";
    return runs(rowBlocks, stream).flatMap(([firstBlock, blocks]) =>
      runs(quanta, stream).map(([firstQuantum, own]) => ({
        ...place,
        scheme,
        ...{ firstBlock, blocks, firstQuantum, quanta: own },
        device: stream.below(devices),
      })),
    );
  });
  return { devices: { hosts: 1, perHost: devices }, shards };
}

/** 0..count-1 in runs of any lengths. */
function runs(count: number, stream: RandomStream): [first: number, count: number][] {
  const cut: [number, number][] = [];
  for (let first = 0; first < count; ) {
    const length = 1 + stream.below(count - first);
    cut.push([first, length]);
    first += length;
  }
  return cut;
}
