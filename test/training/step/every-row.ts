// Devices that train two small tables, for tests of rules that concern every row of a table.

import type { ExecutionContext } from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type {
  SparseOptimizerOptions,
  TableOptions,
} from "../../../src/embedding/tables/options.ts";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { type LocalDevices, startLocalDevices } from "../../helpers/devices/local-devices.ts";

/** Rows of each table. */
export const rows = [60, 12];
export const idsMax = [3, 2];

/** `table`: options of both tables; `native`: on native kernels instead of the reference. */
export function startTables(options: {
  sparse: SparseOptimizerOptions;
  table?: Partial<TableOptions>;
  devices?: number;
  native?: boolean;
}): LocalDevices {
  const { sparse, table, devices = 1, native = true } = options;
  const tables = rows.map((count, i) => {
    const own = { name: `T${i}`, rows: count, dim: 40, pooling: i === 1 ? "mean" : "sum" };
    return { ...own, ...table } as TableOptions;
  });
  return startLocalDevices({
    input: {
      model: modelOptions.parse({
        ...{ kind: "dlrm", dense: 3, tables },
        ...{ bottom: [6, 40], top: [7, 1] },
      }),
      ...{ batchSize: 12, slices: 8, idsMax, tiers: tiersOptions.parse({}) },
    },
    recipe: { optimizer: optimizerOf({ kind: "sgd", learningRate: 0.05 }, sparse), seed: 11 },
    devices,
    kernels: () => (native ? openKernels("auto") : createReference()),
  });
}

/**
 * Asserts that `trained` has the result of one device on 2 and 3, wherever the rows lie, and that
 * row blocks on three devices have that of row blocks on one.
 */
export async function isSameAnywhere(
  t: ExecutionContext,
  trained: (on: { table?: Partial<TableOptions>; devices?: number }) => Promise<unknown>,
): Promise<void> {
  const expected = await trained({});
  const placed: Partial<TableOptions>[] = [
    {},
    { sharding: "data-parallel" },
    { sharding: "column-wise" },
    { dedup: true },
    { tier: "cached" },
  ];
  for (const [i, table] of placed.entries()) {
    for (const devices of i === 0 ? [2, 3] : [3]) {
      t.deepEqual(await trained({ devices, table }), expected, JSON.stringify(table));
    }
  }
  const blocks = await trained({ table: { rowBlocks: 4 } });
  const cut = { rowBlocks: 4, sharding: "row-wise" } as const;
  t.deepEqual(await trained({ devices: 3, table: cut }), blocks);
}
