// Numeric labels (regression) beside a task of the other kind, in a simulated run: no bit depends
// on the number of devices or on a lost device. test/cli/numbers.test.ts has a whole run.

import test from "ava";
import { oneModelAfterLosses, simulatedData } from "../../helpers/simulated.ts";

test.serial(
  "a simulated model with a task of each kind is the same on 1 to 3 devices and after a loss",
  async (t) => {
    const tables = ["a", "b", "c"].map((name) => ({ name, rows: 200, dim: 8 }));
    const tasks = [
      { name: "label", tower: [8] },
      { name: "label2", weight: 0.25, loss: { kind: "mse" } },
    ] as const;
    const { result, generations } = await oneModelAfterLosses({
      model: { kind: "sharedBottom", dense: 4, tables, shared: [16], tasks },
      optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 } },
      data: { ...simulatedData, labels: 2 },
      evaluation: {
        everySteps: 2,
        reduceOnPlateau: { metric: "rmse", task: "label2", factor: 0.5 },
      },
    });
    t.deepEqual(Object.keys(result.tasks ?? {}), ["label", "label2"]);
    t.deepEqual(generations, [2, 2]);
  },
);
