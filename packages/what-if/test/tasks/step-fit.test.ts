// The planner's costs of a step: the fit finds them from the steps of the probes.

import { join } from "node:path";
import test from "ava";
import { noStepCosts, planJob, resolveJob, workloadOf } from "../../../../internal.ts";
import { assessPlan, readSeconds } from "../../../../src/planner/assess.ts";
import { serverConstants } from "../../../../src/planner/cost/constants.ts";
import { fc } from "../../../../test/helpers/properties.ts";
import { near } from "../../../../test/helpers/stores/plans.ts";
import { fitStepCosts, leastSquares } from "../../tasks/fit-step-costs.ts";
import { stepJob, stepProbes } from "../../tasks/step-probes.ts";

test("the fit recovers the costs from which the times of the step probes were computed", (t) => {
  const truth = {
    ...{ ...noStepCosts, devices: 2, step: 8e-4, shard: 3e-5, vector: 1e-8, element: 1e-9 },
    ...{ id: 1e-8, activation: 1e-9, product: 1e-10, layer: 5e-6, parameter: 1e-9 },
    ...{ sliceParameter: 1e-10, sliceRow: 1e-7 },
    ...{ readBatch: 2e-5, readSample: 2e-7, readBag: 1e-8, readId: 5e-9 },
  };
  const { cores: _, ...others } = serverConstants;
  const constants = { ...others, memoryBytes: 8e9, steps: [truth] };
  const devices = { hosts: 1, perHost: 2 };
  const measured = stepProbes.map((probe) => {
    const job = resolveJob(stepJob(probe, join("no", "directory")));
    const found = planJob(job, { devices, constants });
    if (!found.isFeasible) throw new RangeError("A probe fits any device");
    const setting = { workload: workloadOf(job), devices, constants };
    const { step, stages } = assessPlan(setting, found.plan);
    const seconds = step - stages.read;
    return { setting, plan: found.plan, seconds, readSeconds: readSeconds(setting) };
  });
  const fitted = fitStepCosts({ devices: 2, rowSpeed: 1, denseSpeed: 1 }, measured);
  for (const { setting, plan } of measured) {
    const again = { ...setting, constants: { ...constants, steps: [fitted] } };
    near(t, assessPlan(again, plan).step, assessPlan(setting, plan).step, 0.02);
  }
  for (const name of ["step", "shard", "sliceParameter", "sliceRow", "readSample"] as const) {
    near(t, fitted[name], truth[name], 0.1);
  }
});

test("no fitted cost is below 0, whatever the times", (t) => {
  const number = fc.double({ min: -10, max: 10, noNaN: true });
  const row = fc.tuple(number, number, number);
  fc.assert(
    fc.property(fc.array(fc.tuple(row, number), { minLength: 1, maxLength: 6 }), (rows) => {
      const a = rows.map(([own]) => own);
      const b = rows.map(([, value]) => value);
      const x = leastSquares(a, b);
      const excess = (of: readonly number[]) =>
        a.reduce((sum, own, i) => {
          const value = own.reduce((all, one, j) => all + one * (of[j] ?? 0), 0);
          return sum + (value - (b[i] ?? 0)) ** 2;
        }, 0);
      return x.every((one) => one >= 0) && excess(x) <= excess([0, 0, 0]) + 1e-9;
    }),
    { numRuns: 50 },
  );
  t.deepEqual(
    leastSquares(
      [
        [1, 0],
        [0, 1],
      ],
      [3, -2],
    ).map((one) => Math.round(one)),
    [3, 0],
  );
});
