// Tables and settings for tests of the planner, by default small and with round numbers.

import type { ExecutionContext } from "ava";
import { defaultConstants, type MachineConstants } from "../../../src/planner/cost/constants.ts";
import type { Setting } from "../../../src/planner/cost/cost.ts";
import {
  type Devices,
  type PlannedTable,
  type Scheme,
  schemes,
} from "../../../src/planner/shards.ts";

/** Asserts that a number is the expected one, within rounding or a share of it. */
export function near(t: ExecutionContext, value: number, expected: number, share = 1e-12): void {
  const isNear = Math.abs(value - expected) <= share * Math.abs(expected);
  t.true(isNear, `${value}, expected ${expected} within ${share}`);
}

/** A table that may be cut by every scheme. */
export function plannedTable(name: string, given: Partial<PlannedTable> = {}): PlannedTable {
  return {
    name,
    rows: 1000,
    dim: 64,
    rowBlocks: 1,
    poolingFactor: 10,
    zipf: 1.05,
    weightBytes: 4,
    stateBytes: 0,
    rowBytes: 0,
    sumRounds: 0,
    schemes,
    tiers: ["memory"],
    ...given,
  };
}

/** A setting with these tables, and no dense layers. */
export function settingOf(
  tables: readonly PlannedTable[],
  devices: Devices,
  constants: Partial<MachineConstants> = {},
  batchSize = 1024,
): Setting {
  return {
    workload: {
      ...{ tables, batchSize, readers: 1 },
      ...{
        denseParameters: 0,
        denseFlop: 0,
        denseActivations: 0,
        denseOwnProducts: 0,
        denseLayers: 0,
      },
    },
    devices,
    constants: { ...defaultConstants, ...constants },
  };
}

/** The same setting with every table restricted to these schemes. */
export function cutBy(setting: Setting, ...allowed: readonly Scheme[]): Setting {
  const tables = setting.workload.tables.map((table) => ({ ...table, schemes: allowed }));
  return { ...setting, workload: { ...setting.workload, tables } };
}
