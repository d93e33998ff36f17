// Question: what does `ikjt: auto` cost where it finds nothing to deduplicate? Samples of sessions
// in a shuffled order, whose lists hardly repeat within a batch. Limit: the time in which the same
// machine trains a million samples of the same model once. The steps equal those of a job without
// `ikjt`, so that choosing the groups is the only extra cost.

import { chooseGroups } from "../../actors/threads/data/choose-groups.ts";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../src/data/options.ts";
import { EpochOrder } from "../../src/data/sample-order.ts";
import { shapesOf } from "../../src/model/features.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, single } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";
import { runDevices } from "../step/device-threads.ts";
import { optimizerOf } from "../step/optimizers.ts";
import { modelOf, userLists } from "./train.bench.ts";

/** As many samples as choosing groups reads at most (choose-groups.ts). */
const samples = 102_400;
const [batchSize, slices, devices, rounds] = [2048, 8, 2, 3];
/** Samples of a run that is small compared with runs that need deduplication. */
const trained = 1_000_000;

export const offBench: Bench = {
  question: "what finding nothing to deduplicate costs, beside training a million samples",
  options: [],
  measurements: () => [single("dedup.off", 45, offRow)],
};

async function offRow(): Promise<BenchRow> {
  const model = modelOf("pooled");
  using home = temporaryHome("osiris-bench-");
  const features = Object.entries(userLists).map(([name, l]) => [name, { d: 0.95, l }]);
  const data = dataOptions.parse({
    ...{ kind: "synthetic", samples, dense: 13, batchSize, cache: home.path },
    sessions: { samples: 16, features: Object.fromEntries(features) },
    ikjt: "auto",
  });
  const { path, idsMax } = await prepareCache(data, shapesOf(model), realDisk);
  const spec = data.ikjt;
  if (spec === undefined) throw new RangeError("Expected options of deduplicated lists");
  const seconds = { choosing: [] as number[], training: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    const startMs = performance.now();
    const dataset = openCache(path, realDisk);
    const names = shapesOf(model).map(({ name }) => name);
    const order = new EpochOrder({ seed: 1, shuffle: true }, { samples, batchSize });
    const input = { spec, dataset, order, batchSize, slices };
    const groups = await chooseGroups({ ...input, features: names });
    dataset.close();
    seconds.choosing.push((performance.now() - startMs) / 1000);
    if (groups.some(({ isChosen }) => isChosen)) throw new RangeError("Expected no group");
    const [report] = await runDevices({
      input: { model, batchSize, slices, idsMax },
      recipe: {
        optimizer: optimizerOf(
          { kind: "sgd", learningRate: 0.01 },
          { kind: "rowWiseAdagrad", learningRate: 0.01 },
        ),
        seed: 727,
      },
      ...{ devices, depth: 3, batches: 4, seconds: 600, steps: 12, arithmetic: "auto" },
      cache: path,
    });
    const own = (report?.stepMs ?? []).slice(2);
    const stepMs = own.reduce((sum, ms) => sum + ms, 0) / own.length;
    seconds.training.push(((stepMs / 1000) * trained) / batchSize);
  }
  const limitIs = "training a million samples";
  return rowOf({ name: "dedup.off", unit: "s", limitIs }, seconds.choosing, seconds.training);
}
