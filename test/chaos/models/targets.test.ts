// Weights and groups of samples, from a file to the model and its metrics: no bit depends on the
// number of devices or on a kill.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { csv, type JobOptions, loadModel, runHistory } from "../../../index.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { historyCsv } from "../../../storage/checkpoints/run-history.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { oneModelAfterLosses, simulatedData } from "../../helpers/simulated.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const samples = 1200;

/**
 * Click logs: the user determines the level of the labels, the item their ranking within the user.
 */
function writeClicks(t: ExecutionContext, weightOf: (item: number) => number): string {
  const directory = startDirectory(t);
  const stream = new RandomStream(3, 4, 6);
  let text = "y,item,user,w\n";
  for (let line = 0; line < samples; line++) {
    const [item, user] = [stream.below(40), stream.below(30)];
    const score = (item - 20) / 10 + (user - 15) / 5 + stream.normal();
    text += `${score > 0 ? 1 : 0},i${item},u${user},${weightOf(item)}\n`;
  }
  const path = join(directory, "clicks.csv");
  writeFileSync(path, text);
  return path;
}

function jobOf(path: string, own: { weight?: string; group?: string }) {
  const tables = [{ name: "item", rows: 60, dim: 8 }];
  const data = { label: "y", categorical: ["item"], batchSize: 64, epochs: 2, ...own };
  return {
    model: { kind: "dlrm", tables, top: [8, 1] },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
    evaluation: { everySteps: 10, keepBest: own.group === undefined ? "auc" : "gauc" },
    data: csv(path, data),
    checkpoint: {},
  } as const;
}

function jobOn(place: EitherCluster, path: string, own: { weight?: string; group?: string }) {
  const { data, ...rest } = jobOf(path, own);
  const job = place.job(rest);
  return { ...job, data: { ...data, cache: job.data.cache } } as JobOptions;
}

const exit = { actor: "device:1", generation: 1, step: 17, point: 5, effect: "exit" } as const;

const weightsAndGroups = { weight: "w", group: "user" };

test.serial(
  "weights and groups give the same model and GAUC on 1 and 3 devices, and after a kill",
  async (t) => {
    const path = writeClicks(t, (item) => (item % 2 === 0 ? 2.5 : 0.125));
    await using place = await startCluster(3);
    const found: string[] = [];
    for (const devices of someOrAll("devices, weights and groups", [1, 3], [1, 2, 3])) {
      if (devices === 3) place.threads.plan([exit]);
      const { result } = await runJob(place, { ...jobOn(place, path, weightsAndGroups), devices });
      t.is(result.generation, devices === 3 ? 2 : 1);
      found.push(JSON.stringify([result.digest, result.history]));
      if (devices !== 3) continue;
      const trained = await loadModel(result.directory);
      const { auc, gauc } = await trained.evaluate();
      t.deepEqual([auc, gauc], [result.auc, result.gauc]);
      // The model does not see the user's level, which lowers its AUC but not its ranking per user.
      t.true((gauc ?? 0) > auc + 0.05, `AUC ${auc}, GAUC ${gauc}`);
      await trained.close();
      t.is(result.evaluations?.best.metric, "gauc");
      t.regex(historyCsv(runHistory(result.directory)), /normalizedEntropy,gauc\n(.*,0\.\d+\n)+/);
    }
    t.is(new Set(found).size, 1, found.join("\n"));
  },
);

testIf(testAll).serial(
  "a sample weight of 1 equals no weight, and another weight trains another model",
  async (t) => {
    await using place = await startCluster(2);
    const [ones, halves] = [writeClicks(t, () => 1), writeClicks(t, () => 0.5)];
    const digestOf = async (path: string, own: { weight?: string }) =>
      (await runJob(place, jobOn(place, path, own))).result.digest;
    const plain = await digestOf(ones, {});
    t.is(await digestOf(ones, { weight: "w" }), plain);
    t.not(await digestOf(halves, { weight: "w" }), plain);
  },
);

test("GAUC without groups, and two labels for a model with one task, are refused", (t) => {
  const { checkpoint, ...job } = jobOf("absent.csv", { group: "user" });
  const refused = (data: object) => {
    const own = { ...job, data: { ...job.data, ...data }, checkpoint: { directory: "unused" } };
    return t.throws(() => resolveJob(own as JobOptions))?.message ?? "";
  };
  t.regex(
    refused({ group: undefined }),
    /`evaluation.keepBest` to be another metric, as GAUC needs groups, which `data.group`/,
  );
  t.regex(
    refused({ label: ["y", "z"] }),
    /`data.label` to be one label, as `model.kind` is no "sharedBottom", "mmoe", "ple" or "esmm", got/,
  );
});

test.serial(
  "a simulated ESMM with missing labels is the same on 1, 2 and 3 devices, and after a loss",
  async (t) => {
    const tasks = [
      { name: "label", tower: [4] },
      { name: "label2", missing: "mask" },
    ] as const;
    const tables = ["a", "b", "c"].map((name) => ({ name, rows: 200, dim: 8 }));
    const model = { kind: "esmm", dense: 4, tables, tasks } as const;
    const optimizer = { sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 } } as const;
    const data = { ...simulatedData, labels: 2 };
    const { result, generations } = await oneModelAfterLosses({ model, optimizer, data });
    t.deepEqual(generations, [2, 2]);
    const { label, label2 } = result.tasks ?? {};
    t.true((label2?.samples ?? 0) < (label?.samples ?? 0), JSON.stringify(result.tasks));
    t.true(Number.isFinite(label2?.logLoss));
  },
);
