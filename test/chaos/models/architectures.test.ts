// Every architecture: no bit depends on the number of devices, on the kernels of a placement or on
// a kill, and the trained model has the scores of the run's evaluation. In virtual time in `npm
// test`, on real threads in `npm run test:all`.

import { type JobOptions, loadModel } from "../../../index.ts";
import { runJob, smallData } from "../../helpers/clusters/clusters.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
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

const exit = { actor: "device:1", generation: 1, step: 17, point: 5, effect: "exit" } as const;

type Generated = Extract<JobOptions["data"], { kind: "synthetic" }>;

/** Data for a model: where it has a sequence, with lists of none to nine ids. */
function dataFor({ kind, dense = 0 }: JobOptions["model"], data: Generated): Generated {
  const perFeature = { a2: { idsPerBag: { min: 0, max: 9 } } };
  return { ...data, dense, ...((kind === "din" || kind === "bst") && { perFeature }) };
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
      const data = dataFor(model, simulatedData);
      const { result, generations } = await oneModelAfterLosses({ model, data });
      t.is(result.step, 7); // One of eight batches is held out.
      t.deepEqual(generations, [2, 2]);
    },
  );

  testIf(testAll).serial(
    `a ${title} trains to the same model on 1, 2 and 3 devices, and after a kill`,
    async (t) => {
      const digests: string[] = [];
      for (const devices of [1, 2, 3]) {
        await using place = await startCluster(devices);
        if (devices === 3) place.threads.plan([exit]);
        const { result } = await runJob(
          place,
          place.job({ model, data: dataFor(model, smallData) }),
        );
        t.is(result.generation, devices === 3 ? 2 : 1);
        digests.push(result.digest);
        if (devices !== 3) continue;
        const trained = await loadModel(result.directory);
        const { auc, logLoss } = await trained.evaluate();
        t.deepEqual([auc, logLoss], [result.auc, result.logLoss]);
        await trained.close();
      }
      t.is(new Set(digests).size, 1, digests.join("\n"));
    },
  );
}
