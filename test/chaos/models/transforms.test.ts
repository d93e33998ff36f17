// A job with transforms, from a file to the model: no bit depends on the number of devices or on a
// kill, and predictions apply the same transforms as training.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { csv, type JobOptions, loadModel, predictFile, tableIds } from "../../../index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

const samples = 1200;
type Click = { readonly brand: string; readonly tags: string; readonly price: string };

/**
 * A user likes a brand if both have the same parity: only the crossed feature predicts the label.
 */
function clicksOf(): { readonly y: number; readonly record: Click & { readonly user: number } }[] {
  const stream = new RandomStream(3, 4, 6);
  return Array.from({ length: samples }, () => {
    const [user, brand] = [stream.below(16), stream.below(12)];
    const tags = Array.from({ length: stream.below(3) }, () => stream.below(9)).join("|");
    const price = stream.below(20) === 0 ? "" : `${stream.below(1000)}`;
    const score = (user + brand) % 2 === 0 ? 1.5 : -1.5;
    const record = { user, brand: `b${brand}`, tags, price };
    return { y: score + stream.normal() > 0 ? 1 : 0, record };
  });
}

const clicks = clicksOf();

function writeFiles(t: ExecutionContext) {
  const directory = startDirectory(t);
  const lines = clicks.map(({ y, record: { user, brand, tags, price } }) => {
    return `${y},${user},${brand},${tags},${price}`;
  });
  const path = join(directory, "clicks.csv");
  writeFileSync(path, `y,user,brand,tags,price\n${lines.join("\n")}\n`);
  const brands = join(directory, "brands.txt");
  writeFileSync(brands, Array.from({ length: 12 }, (_, i) => `b${i}\n`).join(""));
  return { directory, path, brands };
}

const exit = { actor: "device:1", generation: 1, step: 17, point: 5, effect: "exit" } as const;

function jobOn(place: EitherCluster, { path, brands }: { path: string; brands: string }) {
  const rows = { brandId: 12, pair: 400, tagIds: 20 };
  const tables = Object.entries(rows).map(([name, count]) => ({ name, rows: count, dim: 8 }));
  const job = place.job({
    model: { kind: "dlrm", tables, bottom: [8, 8], top: [8, 1] },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.2 } },
    evaluation: { everySteps: 10 },
  });
  const transforms = [
    { op: "mapId", input: "brand", output: "brandId", vocabulary: brands },
    { op: "cartesian", inputs: ["user", "brandId"], output: "pair", max: 400 },
    { op: "fill", input: "price", output: "known", value: 10 },
    { op: "log", input: "known", output: "logPrice", plus: 1 },
    { op: "sigridHash", input: { column: "tags", separator: "|" }, output: "tagIds", max: 20 },
    { op: "onehot", input: "known", output: "level", low: 0, high: 1000, buckets: 4 },
    { op: "sampling", rate: 0.9, seed: 4 },
  ] as const;
  const categorical = Object.keys(rows).map((column) => ({ column, ids: "integer" as const }));
  const { cache } = job.data;
  const features = { transforms, dense: ["logPrice", "level"], categorical };
  const data = { label: "y", batchSize: 64, epochs: 6, cache, ...features };
  return { ...job, data: csv(path, data) } satisfies JobOptions;
}

test.serial(
  "a job with transforms: one model on 1 and 2 devices and after a kill; predictions match",
  async (t) => {
    const files = writeFiles(t);
    await using place = await startCluster(2);
    const alone = await runJob(place, { ...jobOn(place, files), devices: 1 });
    place.threads.plan([exit]);
    const { result } = await runJob(place, jobOn(place, files));
    t.is(result.generation, 2);
    t.is(result.digest, alone.result.digest);
    t.deepEqual(result.history, alone.result.history);
    t.true((result.auc ?? 0) > 0.8, `AUC ${result.auc}`);
    // Records, a file and an evaluation are transformed like the lines of training.
    await using model = await loadModel(result.directory);
    const { auc, logLoss } = await model.evaluate();
    t.like(result, { auc, logLoss });
    const listed = clicks.map(({ record }) => {
      const { tags, price } = record;
      return {
        ...record,
        tags: tags === "" ? [] : tags.split("|"),
        price: price === "" ? null : +price,
      };
    });
    const wanted = await model.predict(listed);
    t.deepEqual(await model.predict(clicks.map(({ record }) => record)), wanted);
    const out = join(files.directory, "scored.csv");
    // The sampling transform drops no line from predictions.
    t.like(await predictFile(model, files.path, out), { samples, bad: 0 });
    const scored = readFileSync(out, "utf8").trimEnd().split("\n").slice(1);
    const got = scored.map((line) => Math.fround(Number(line.slice(line.lastIndexOf(",") + 1))));
    t.deepEqual(Float32Array.from(got), wanted);
    await t.throwsAsync(tableIds(model.job, "pair", join(files.directory, "ids.csv")), {
      message:
        "Column `pair` of table `pair` is made by a transform, and has no text in the files: name a table of a column of the files",
    });
    await t.throwsAsync(model.predict([{ user: 1, brnd: "b1", tags: "", price: 3 }]), {
      message: "Cannot use records[0]: `brnd` is no column of the job: did you mean `brand`?",
    });
    await t.throwsAsync(model.predict([{ user: "x", brand: "b1", tags: "", price: 3 }]), {
      message:
        "Cannot use records[0]: expected `user`, which a transform reads, to be an integer of 64 bits, got `x`",
    });
  },
);
