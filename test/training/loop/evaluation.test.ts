// Evaluation on any number of devices.

import test from "ava";
import { resolveJob } from "../../../src/job/job.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { learnableBatch } from "../../helpers/batches/learnable-batch.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";

const batchSize = 21; // Devices get unequal shares on three devices.
const rows = [30, 12, 7];

const targets = { labels: 1, hasSampleWeights: false, hasGroups: true };

function startDevices(devices: number) {
  const { model, optimizer, seed } = resolveJob({
    model: {
      kind: "dlrm",
      dense: 3,
      tables: rows.map((count, i) => ({ name: `T${i}`, rows: count, dim: 4 })),
      bottom: [6, 4],
      top: [7, 1],
    },
    data: { kind: "synthetic", samples: 100, dense: 3, batchSize },
  });
  return startLocalDevices({
    input: { model, batchSize, slices: 8, idsMax: [2, 2, 2], targets },
    recipe: { optimizer, seed },
    devices,
    kernels: createReference,
  });
}

// The last batch is short: some devices have no sample of it.
const batches = [batchSize, batchSize, 2].map((samples, step) => ({
  ...learnableBatch({ samples, dense: 3, rows }, step),
  groups: Float32Array.from({ length: 2 * samples }, (_, i) => 100 * step + i),
}));

for (const devices of [1, 2, 3, 5]) {
  test(`device 0 collects the scores of ${devices} devices in file order`, async (t) => {
    const alone = startDevices(1);
    const logits: number[] = [];
    for (const batch of batches) logits.push(...(await alone.score(batch)));
    const scores = await startDevices(devices).evaluate(batches);
    t.deepEqual([...scores.logits], logits);
    t.deepEqual(
      [...scores.labels],
      batches.flatMap((batch) => [...batch.labels]),
    );
    const halves = (half: number) =>
      batches.flatMap(({ groups, samples }) => [
        ...groups.subarray(half * samples, (half + 1) * samples),
      ]);
    t.deepEqual([...(scores.groups ?? [])], [...halves(0), ...halves(1)]);
  });
}
