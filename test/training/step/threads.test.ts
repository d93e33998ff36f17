// Training on several threads a device: the digest of the model is that of one thread.

import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { openKernels, useThreads } from "../../../src/kernels/index.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { generatedBatches } from "../../helpers/batches/generated-batches.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { nativeKernels, testIf } from "../../helpers/needs.ts";

const batchSize = 192;
const tables = Array.from({ length: 5 }, (_, i) => {
  return { name: `T${i}`, rows: 40 + 300 * i, dim: 16, rowBlocks: i === 4 ? 4 : 1 };
});

/** Digest of a model after eight steps. */
async function digestOf(threads: number, devices: number, sparse: "adam" | "rowWiseAdagrad") {
  const layers = { bottom: [32, 16], top: [48, 1] };
  const model = modelOptions.parse({ kind: "dlrm", dense: 4, tables, ...layers });
  const optimizer = optimizerOf({ kind: "adam" }, { kind: sparse });
  useThreads(threads, 1e-9); // Parts of any size, as these shapes are small.
  const local = startLocalDevices({
    input: { model, batchSize, slices: 8, idsMax: tables.map(() => 1) },
    recipe: { optimizer, seed: 3 },
    devices,
    kernels: () => openKernels("native"),
  });
  const batches = generatedBatches({ batchSize, batches: 8, dense: 4, tables }, 3);
  for (const [step, batch] of batches.entries()) await local.train(batch, step);
  return local.digest();
}

for (const sparse of ["adam", "rowWiseAdagrad"] as const) {
  testIf(nativeKernels).serial(
    `threads of a device change no bit of a model: ${sparse}`,
    async (t) => {
      t.teardown(() => useThreads(1)); // Other tests of this room run in the same thread.
      const one = await digestOf(1, 1, sparse);
      t.is(await digestOf(2, 1, sparse), one);
      t.is(await digestOf(3, 2, sparse), one);
    },
  );
}
