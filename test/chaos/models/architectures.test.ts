// Simulated runs with batch normalisation. Its means need the samples of all devices, so the test
// checks that neither the number of devices nor a lost device changes a bit of the model.
// test/training/step/zoo.test.ts tests the other architectures.

import test from "ava";
import { smallModel } from "../../helpers/clusters/clusters.ts";
import { oneModelAfterLosses, simulatedData } from "../../helpers/simulated.ts";

test.serial(
  "a simulated model with batch normalisation is the same on 1, 2 and 3 devices, and after a loss",
  async (t) => {
    const model = { ...smallModel, batchNorm: true };
    const { result, generations } = await oneModelAfterLosses({ model, data: simulatedData });
    t.is(result.step, 7); // One of eight batches is held out.
    t.deepEqual(generations, [2, 2]);
  },
);
