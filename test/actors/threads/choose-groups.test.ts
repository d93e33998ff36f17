// Which feature groups `ikjt: auto` chooses, and how many samples it reads for the choice.

import test, { type ExecutionContext } from "ava";
import { chooseGroups } from "../../../actors/threads/data/choose-groups.ts";
import { openCache } from "../../../src/data/cache/cache-reader.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { EpochOrder } from "../../../src/data/sample-order.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../../data/data-files.ts";

const [samples, batchSize] = [60_000, 1000];
const tables = [{ name: "user", rows: 5000 }];

/**
 * The groups chosen for sessions of eight samples, and the number of batches read to choose them.
 */
async function chosen(t: ExecutionContext, shuffle: boolean) {
  const data = dataOptions.parse({
    ...{ kind: "synthetic", samples, dense: 1, batchSize, cache: startDirectory(t) },
    sessions: { samples: 8, features: { user: { d: 1, l: 3 } } },
    ikjt: "auto",
  });
  const { path } = await prepareCache(data, tables, realDisk);
  const dataset = openCache(path, realDisk);
  const order = new EpochOrder({ seed: 1, shuffle }, { samples, batchSize });
  let batches = 0;
  const counted = {
    rangesAt: order.rangesAt.bind(order),
    fill(...args: Parameters<EpochOrder["fill"]>) {
      batches++;
      order.fill(...args);
    },
  };
  const spec = data.ikjt ?? { groups: "auto", threshold: 1.5, aligned: false };
  const input = { spec, features: ["user"], dataset, order: counted, batchSize, slices: 4 };
  const groups = await chooseGroups(input);
  dataset.close();
  return { groups, batches };
}

test("contiguous sessions are found, and all samples are read twice for that", async (t) => {
  const { groups, batches } = await chosen(t, false);
  t.like(groups, [{ features: ["user"], isChosen: true }]);
  t.is(batches, (2 * samples) / batchSize);
});

test("if lists hardly repeat, `ikjt: auto` gives up early", async (t) => {
  const { groups, batches } = await chosen(t, true);
  t.deepEqual(groups, []);
  t.is(batches, 25_000 / batchSize);
});
