// Features that share tables, from a file to predictions: no bit depends on the placement or on a
// kill, and the same text maps to the same row in every feature of its table.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { csv, type JobOptions, loadModel } from "../../../index.ts";
import { jobOfCheckpoint, tableIds } from "../../../packages/formats/tables/table-ids.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const samples = 1200;
const items = 30;

/**
 * The label depends on whether items are odd: the line's item, the bought items, and the first seen
 * item.
 */
function writeSessions(t: ExecutionContext): string {
  const directory = startDirectory(t);
  const stream = new RandomStream(3, 4, 6);
  const some = (most: number) =>
    Array.from({ length: stream.below(most) }, () => stream.below(items));
  let text = "y,item,bought,seen,country\n";
  for (let line = 0; line < samples; line++) {
    const [item, bought, seen, country] = [stream.below(items), some(4), some(6), stream.below(9)];
    const odd = [item, ...bought, ...seen.slice(0, 1)].map((id) => (id % 2 === 0 ? -1 : 1));
    const label = odd.reduce((sum, one) => sum + one, stream.normal() + country / 9) > 0 ? 1 : 0;
    const listed = (ids: readonly number[]) => ids.map((id) => `i${id}`).join(" ");
    text += `${label},i${item},${listed(bought)},${listed(seen)},c${country}\n`;
  }
  const path = join(directory, "sessions.csv");
  writeFileSync(path, text);
  return path;
}

function jobOn(place: EitherCluster, path: string): JobOptions {
  const job = place.job({
    model: {
      kind: "dlrm",
      tables: [
        { name: "item", rows: 200, dim: 8, rowBlocks: 2, sharding: "row-wise" },
        { name: "country", rows: 20, dim: 2, sharding: "data-parallel" },
      ],
      features: [
        { column: "item" },
        { column: "bought", table: "item", pooling: "mean" },
        { column: "seen", table: "item", pooling: "none", maxLength: 4 },
        { column: "country" },
      ],
      dim: 8,
      interaction: "dot+cat",
      top: [8, 1],
    },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
  });
  const { cache } = job.data;
  const bag = (column: string) => ({ column, separator: " " });
  const categorical = ["item", bag("bought"), bag("seen"), "country"];
  return { ...job, data: csv(path, { label: "y", categorical, batchSize: 64, epochs: 3, cache }) };
}

const exit = { actor: "device:1", generation: 1, step: 17, point: 5, effect: "exit" } as const;

test.serial(
  "shared and unpooled features: the same model on 1, 2 and 3 devices, and after a kill",
  async (t) => {
    const path = writeSessions(t);
    const digests: string[] = [];
    for (const devices of someOrAll("devices, features", [1, 3], [1, 2, 3])) {
      await using place = await startCluster(devices);
      if (devices === 3) place.threads.plan([exit]);
      const { result } = await runJob(place, jobOn(place, path));
      t.is(result.generation, devices === 3 ? 2 : 1);
      digests.push(result.digest);
      if (devices !== 3) continue;
      t.true((result.auc ?? 0) > 0.6, `AUC ${result.auc}`);
      await predictAndList(t, result.directory, [result.auc, result.logLoss]);
    }
    t.is(new Set(digests).size, 1, digests.join("\n"));
  },
);

/**
 * Checks that the saved model evaluates as the run did, and that a text maps to one row in each
 * feature.
 */
async function predictAndList(
  t: ExecutionContext,
  directory: string,
  expected: readonly unknown[],
): Promise<void> {
  await using model = await loadModel(directory);
  const { auc, logLoss } = await model.evaluate();
  t.deepEqual([auc, logLoss], expected);
  const record = { item: "i4", bought: ["i1", "i2"], seen: "i7 i1", country: "c2" };
  // Ids beyond the maximum sequence length do not count.
  const long = { ...record, seen: ["i7", "i1", "i2", "i3"] };
  const longer = { ...record, seen: ["i7", "i1", "i2", "i3", "i9", "i9"] };
  const [one = 0, two = 0, three = 0] = await model.predict([record, long, longer]);
  t.not(one, two);
  t.is(two, three);
  await t.throwsAsync(model.predict([{ ...record, item: ["i4", "i5"] }]), {
    message: /expected `item` to be one id/,
  });
  const out = join(directory, "ids.csv");
  const report = await tableIds(jobOfCheckpoint(directory), "item", out);
  t.like(report, { table: "item", column: "item, bought, seen", texts: items });
  const texts = readFileSync(out, "utf8").trimEnd().split("\n").slice(1);
  t.is(new Set(texts.map((line) => line.split(",")[1])).size, items);
}
