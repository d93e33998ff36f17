// Small tables, tasks and costs that placement policies are trained with in tests.

import { slowestOf } from "../../src/planner/learned/cost-networks.ts";
import { weightBytesOf } from "../../src/planner/learned/cost-table.ts";
import type { TablesOfDevices } from "../../src/planner/learned/greedy.ts";
import type { DreamSubject } from "../../src/planner/policies/dreamshard/train-dreamshard.ts";
import type { SizedTable } from "../../src/planner/policies/table-pool.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { drawnTables } from "./cost-networks.ts";

export function sizedTables(count: number, seed: number): SizedTable[] {
  return drawnTables(count, seed).map((table) => ({ ...table, bytes: weightBytesOf(table) }));
}

/** Costs that are no sum of those of the tables: a device with many of them is a little faster. */
export function plainCosts(tables: readonly SizedTable[]) {
  return (placed: TablesOfDevices) => {
    return placed.map((own) => {
      const sum = own.reduce((all, index) => {
        const { poolingFactor = 0, dim = 0 } = tables[index] ?? {};
        return all + poolingFactor * (10 + dim);
      }, 0);
      const columns = own.reduce((all, index) => all + (tables[index]?.dim ?? 0), 0);
      return { compute: sum / (1 + own.length / 50), backward: columns, forward: 2 * columns };
    });
  };
}

/** Tasks of six of sixteen tables on two devices. */
export function smallSubject(seed: number, bytes = Number.MAX_SAFE_INTEGER): DreamSubject {
  const tables = sizedTables(16, seed);
  const random = new RandomStream(seed, 4);
  const tasks = Array.from({ length: 10 }, () => {
    const first = random.below(16);
    const own = Array.from({ length: 6 }, (_, i) => (first + 5 * i) % 16);
    return { tables: own, room: { devices: 2, bytes } };
  });
  return { tables, tasks, measure: plainCosts(tables) };
}

/** The least and the mean cost of all placements of the tables on two devices. */
export function allPlacements(tables: readonly SizedTable[]): { least: number; mean: number } {
  const measure = plainCosts(tables);
  const costs = Array.from({ length: 2 ** tables.length }, (_, code) => {
    const on = (device: number) => [...tables.keys()].filter((i) => ((code >> i) & 1) === device);
    return slowestOf(measure([on(0), on(1)]));
  });
  return {
    least: Math.min(...costs),
    mean: costs.reduce((sum, own) => sum + own, 0) / costs.length,
  };
}
