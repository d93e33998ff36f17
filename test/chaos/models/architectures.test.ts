// Architectures in simulated runs: no bit depends on the number of devices or on a lost device.

import type { JobOptions } from "../../../index.ts";
import { zoo } from "../../helpers/models/zoo.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { oneModelAfterLosses, simulatedData } from "../../helpers/simulated.ts";

const chosen = [
  "DLRM with batch normalisation",
  "Wukong with batch normalisation",
  "DIN with Dice",
  "BST",
  "FinalNet of two blocks, with a field gate",
  "GDCN, parallel",
];

/** Models of the zoo, with more rows. */
const models = Object.entries(zoo)
  .filter(([title]) => chosen.includes(title))
  .map(([title, { tables = [], ...model }]): [string, JobOptions["model"]] => {
    return [title, { ...model, tables: tables.map((table) => ({ ...table, rows: 200 })) }];
  });

/** Data for a model: where it has a sequence, with lists of none to nine ids. */
function dataFor({ kind, dense = 0 }: JobOptions["model"]): JobOptions["data"] {
  const perFeature = { a2: { idsPerBag: { min: 0, max: 9 } } };
  return { ...simulatedData, dense, ...((kind === "din" || kind === "bst") && { perFeature }) };
}

/**
 * The architecture that `npm test` simulates here. Its other tests train the others on several
 * devices (test/training/step/zoo.test.ts), and sequences of a model module (own-model.test.ts).
 */
const usual = ["DLRM with batch normalisation"];

for (const [title, model] of models) {
  testIf(...(usual.includes(title) ? [] : [testAll])).serial(
    `a simulated ${title} trains to the same model on 1, 2 and 3 devices, and after a loss`,
    async (t) => {
      const job = { model, data: dataFor(model) };
      const { result, generations } = await oneModelAfterLosses(job);
      t.is(result.step, 7); // One of eight batches is held out.
      t.deepEqual(generations, [2, 2]);
    },
  );
}
