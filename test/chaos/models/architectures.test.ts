// Every architecture: no bit depends on the number of devices, on the kernels of a placement or on
// a kill, and the trained model has the scores of the run's evaluation. In virtual time in `npm
// test`, on real threads in `npm run test:all`.

import { type JobOptions, loadModel } from "../../../index.ts";
import { runJob, smallData } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { oneModelAfterLosses, simulatedData } from "../../helpers/simulated.ts";

const tables = ["a", "b", "c"].map((name) => ({ name, rows: 200, dim: 8 }));
const top = [8, 1];

const models: Readonly<Record<string, JobOptions["model"]>> = {
  gdcn: { kind: "gdcn", dense: 4, tables, crossLayers: 2, structure: "parallel", top },
  "dlrm with batch normalisation": {
    kind: "dlrm",
    dense: 4,
    tables,
    bottom: [8, 8],
    top: [16, 8, 1],
    batchNorm: true,
    dropout: 0.1,
  },
  "finalNet of two blocks": {
    kind: "finalNet",
    dense: 4,
    tables,
    first: [16, 8],
    second: [8],
    fieldGate: true,
    batchNorm: true,
    dropout: 0.1,
  },
  "din with sequences of none to nine ids": {
    kind: "din",
    dense: 4,
    tables,
    features: [
      { column: "a" },
      { column: "seen", table: "a", pooling: "none", maxLength: 4, kept: "last" },
      { column: "b" },
      { column: "c" },
    ],
    attention: [{ target: "a", sequence: "seen", hidden: [6] }],
    activation: "dice",
    top,
    batchNorm: true,
    dropout: 0.1,
  },
  "bst with sequences of none to nine ids": {
    kind: "bst",
    dense: 4,
    tables,
    features: [
      { column: "a" },
      { column: "seen", table: "a", pooling: "none", maxLength: 4, kept: "last" },
      { column: "b" },
      { column: "c" },
    ],
    transformers: [{ target: "a", sequence: "seen", blocks: 2 }],
    top,
    dropout: 0.1,
  },
  "wukong with batch normalisation": {
    kind: "wukong",
    dense: 4,
    tables,
    bottom: [8, 8],
    layers: [{ interacted: 3, compressed: 2, rank: 3, hidden: [8] }],
    top,
    batchNorm: true,
  },
};

const exit = { actor: "device:1", generation: 1, step: 17, point: 5, effect: "exit" } as const;

const lists = { seen: { idsPerBag: { min: 0, max: 9 } } };
const hasLists = (model: JobOptions["model"]) => model.kind === "din" || model.kind === "bst";

/**
 * The architecture that `npm test` simulates here. Its other tests train the others on several
 * devices (test/training/step/zoo.test.ts), and sequences of a model module (own-model.test.ts).
 */
const usual = ["dlrm with batch normalisation"];

for (const [title, model] of Object.entries(models)) {
  testIf(...(usual.includes(title) ? [] : [testAll])).serial(
    `a simulated ${title} trains to the same model on 1, 2 and 3 devices, and after a loss`,
    async (t) => {
      const data = hasLists(model) ? { ...simulatedData, perFeature: lists } : simulatedData;
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
        const { result } = await runJob(place, jobOn(place, model));
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

function jobOn(place: EitherCluster, model: JobOptions["model"]): JobOptions {
  if (!hasLists(model)) return place.job({ model });
  return place.job({ model, data: { ...smallData, perFeature: lists } });
}
