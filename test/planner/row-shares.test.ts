// The distribution of ids over a table's rows, and its effect on row-wise sharding.

import test from "ava";
import { serverConstants } from "../../src/planner/cost/constants.ts";
import { distinctShares, rowShare } from "../../src/planner/cost/row-shares.ts";
import { trafficOf } from "../../src/planner/cost/traffic.ts";
import { enumerateOptions } from "../../src/planner/enumerate.ts";
import { near, plannedTable, settingOf } from "../helpers/stores/plans.ts";

test("a tile's share of the ids is that counted for its rows", (t) => {
  const table = { rows: 1000, rowBlocks: 4 };
  const halves = [
    { firstBlock: 0, blocks: 2 },
    { firstBlock: 2, blocks: 2 },
  ] as const;
  t.deepEqual(
    halves.map((tile) => rowShare(table, tile, undefined)),
    [0.5, 0.5],
  );
  // Ten runs of 100 rows: all ids are in the first 100 rows, and so in the first block of 250.
  const first = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  t.deepEqual(
    halves.map((tile) => rowShare(table, tile, first)),
    [1, 0],
  );
  // The third run lies half in the first block, half in the second.
  const third = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
  near(t, rowShare(table, { firstBlock: 0, blocks: 1 }, third), 0.5);
});

test("popular rows are a smaller share of distinct rows than of ids", (t) => {
  const table = { rows: 100, rowBlocks: 2 };
  const [hot = 0, cold = 0] = distinctShares(table, 1000, [0.98, 0.02]) ?? [];
  near(t, hot + cold, 1);
  // All 50 hot rows, and of 50 cold rows those that 20 draws hit: 16.5.
  near(t, hot, 50 / (50 + 50 * (1 - Math.exp(-20 / 50))), 1e-6);
  t.is(distinctShares(table, 10, undefined), undefined);
});

test("the row block with most ids costs more than the others, and receives their bytes", (t) => {
  const given = { rows: 1000, rowBlocks: 2, schemes: ["row-wise" as const] };
  const table = plannedTable("T", { ...given, idShares: [0.9, 0.1] });
  const setting = settingOf([table], { hosts: 1, perHost: 2 }, serverConstants, 100);
  const [option] = enumerateOptions(setting, table);
  const [first = 0, second = 0] = (option?.groups ?? []).flatMap(({ parts }) =>
    parts.map((part) => part.cost),
  );
  t.true(first > 1.2 * second, `${first} and ${second}`);
  const sent = [0, 1].map((firstBlock) => {
    const tile = { firstBlock, blocks: 1, firstQuantum: 0, quanta: 2 };
    const place = { table: "T", scheme: "row-wise", tier: "memory", device: firstBlock } as const;
    return trafficOf(setting, table, { ...place, ...tile }, 1).input;
  });
  // 50 samples of 10 ids and a length, 4 bytes each.
  near(t, sent[0] ?? 0, 50 * (0.9 * 10 + 1) * 4);
  near(t, sent[1] ?? 0, 50 * (0.1 * 10 + 1) * 4);
});
