// The tally of a checkpoint's parts: it counts them, and so detects when a cut is complete.

import test from "ava";
import { resolveJob } from "../../../src/job/job.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import {
  createPartTally,
  densePart,
  idsPartNameOf,
  partNameOf,
} from "../../../src/training/checkpoint/part-names.ts";
import { rounds } from "../../helpers/thinned.ts";

test("a model is complete once each part was reported, in any order, also repeatedly", (t) => {
  const dynamic = { eviction: { kind: "age" as const, steps: 4 }, everySteps: 1 };
  const { model } = resolveJob({
    data: { kind: "synthetic", samples: 64, dense: 2, batchSize: 16 },
    model: {
      ...{ kind: "dlrm", dense: 2, bottom: [64], top: [1], interaction: "cat" },
      tables: [
        { name: "a", rows: 64, dim: 64, rowBlocks: 4 },
        { name: "b", rows: 64, dim: 64, rowBlocks: 2, idBits: 64, dynamic },
        { name: "c", rows: 10, dim: 64 },
      ],
    },
  });
  const { tables } = model;
  const tile = { firstBlock: 0, blocks: 4, firstQuantum: 0, quanta: 2 };
  const names = [
    densePart,
    partNameOf({ ...tile, table: 0, blocks: 1 }, tables),
    partNameOf({ ...tile, table: 0, firstBlock: 1, blocks: 3, quanta: 1 }, tables),
    partNameOf({ ...tile, table: 0, firstBlock: 1, blocks: 3, firstQuantum: 1, quanta: 1 }, tables),
    partNameOf({ ...tile, table: 1, blocks: 2 }, tables),
    idsPartNameOf({ table: 1, firstBlock: 0, blocks: 1 }, tables),
    idsPartNameOf({ table: 1, firstBlock: 1, blocks: 1 }, tables),
    partNameOf({ ...tile, table: 2, blocks: 1 }, tables),
  ];
  const stream = new RandomStream(3, 1, 4);
  for (let round = 0; round < rounds("orders of parts", 8, 200); round++) {
    const left = [...names];
    const tally = createPartTally(tables);
    while (left.length > 0) {
      t.false(tally.isWhole);
      t.true(tally.missing().length > 0);
      const [name = ""] = left.splice(stream.below(left.length), 1);
      for (let i = 0; i <= stream.below(2); i++) tally.add(name);
      tally.add("table-00099");
    }
    t.true(tally.isWhole);
    t.deepEqual(tally.missing(), []);
  }
  const tally = createPartTally(tables);
  for (const name of names.filter((_, i) => i !== 2)) tally.add(name);
  t.deepEqual(tally.missing(), ["table-00000"]);
  t.deepEqual(createPartTally(tables).missing(), [
    "dense",
    ...["table-00000", "table-00001", "table-00002", "ids-00001"],
  ]);
});
