// The cost of rows by their columns and their lookup frequency.

import test from "ava";
import { checkConstants } from "../../src/planner/cost/constants.ts";
import { costOf } from "../../src/planner/cost/cost.ts";
import { type RowCosts, rowCostNames, rowCostsOf } from "../../src/planner/cost/row-costs.ts";
import { near, plannedTable, settingOf } from "../helpers/stores/plans.ts";

const costs = (columns: number, seconds: number): RowCosts => ({
  columns,
  ...(Object.fromEntries(rowCostNames.map((name) => [name, seconds])) as Omit<RowCosts, "columns">),
});

test("row costs are interpolated between measured widths, and proportional beyond", (t) => {
  const measured = [costs(64, 4), costs(16, 1), costs(32, 2)];
  const updateOf = (columns: number) => rowCostsOf(measured, columns)?.updateId;
  t.deepEqual([4, 16, 24, 32, 48, 64, 128].map(updateOf), [1, 1, 1.5, 2, 3, 4, 8]);
  t.is(rowCostsOf([], 16), undefined);
});

test("measured row costs add seconds per id, vector and distinct row", (t) => {
  const rows = [{ ...costs(64, 0), lookupId: 1, lookupRow: 10, vector: 100, updateId: 1000 }];
  const constants = checkConstants({ rows });
  // One id in a bag of each of 8 samples, in a table of one row.
  const table = plannedTable("T", { rows: 1, poolingFactor: 1 });
  const setting = settingOf([table], { hosts: 1, perHost: 1 }, constants, 8);
  const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 2 };
  const { seconds } = costOf(setting, table, "table-wise", "memory", tile);
  near(t, seconds.lookup, 8 * 1 + 10 * (1 - Math.exp(-8)) + 8 * 100, 1e-9);
  near(t, seconds.update, 8 * 1000, 1e-9);
});

test("each part of a table cut by columns pays for all ids, and for the sums of its rows", (t) => {
  const row = { ...costs(32, 0), lookupId: 1, updateId: 10, sumsId: 100, sumsRow: 1000 };
  const constants = checkConstants({ rows: [row], rowSumSeconds: 1e4, idSeconds: 1e5 });
  const table = plannedTable("T", { rows: 1, poolingFactor: 1, sumRounds: 1 });
  const setting = settingOf([table], { hosts: 1, perHost: 2 }, constants, 8);
  const distinct = 1 - Math.exp(-8);
  for (const firstQuantum of [0, 1]) {
    const tile = { firstBlock: 0, blocks: 1, firstQuantum, quanta: 1 };
    const { seconds } = costOf(setting, table, "column-wise", "memory", tile);
    near(t, seconds.lookup, 8, 1e-9);
    near(t, seconds.update, 8 * (10 + 100) + distinct * (1000 + 1e4), 1e-9);
    near(t, seconds.inputExchange, 8e5, 1e-9);
  }
});
