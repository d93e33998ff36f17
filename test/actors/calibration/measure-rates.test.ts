// Calibration: threads measure at the same time, and their results are constants for a plan.

import test from "ava";
import { measureRates } from "../../../actors/calibration/measure-rates.ts";
import { solveRowCosts } from "../../../actors/threads/calibration-rows.ts";
import { RemoteError } from "../../../src/errors/errors.ts";
import { checkConstants, defaultConstants } from "../../../src/planner/cost/constants.ts";
import { workerLauncher } from "../../../src/ports/launcher.ts";
import { fc } from "../../helpers/properties.ts";
import { near } from "../../helpers/stores/plans.ts";
import { rounds } from "../../helpers/thinned.ts";

const size = {
  tableBytes: 2 ** 18,
  samples: 64,
  idsPerBag: 4,
  partBytes: 2 ** 14,
  gradientLength: 2 ** 10,
  productExtent: 32,
  rounds: 2,
};

test.serial("two threads measure their exchange, and the constants survive JSON", async (t) => {
  // The least of eight rounds: on a busy machine some rounds wait for a processor.
  const rounds = { ...size, rounds: 8 };
  const options = { memoryBytes: 5e9, source: "a test", arithmetic: "reference" } as const;
  const constants = await measureRates({ ...options, size: rounds, devices: 2 });
  t.deepEqual(checkConstants(JSON.parse(JSON.stringify(constants))), constants);
  t.regex(constants.source, /^a test, reference/);
  t.is(constants.memoryBytes, 5e9);
  const { insideHost, memoryBandwidth, denseFlops, backwardFactor } = constants;
  for (const rate of [memoryBandwidth, denseFlops, ...Object.values(insideHost)]) {
    t.true(rate > 1e4 && rate < 1e13, `${rate}`);
  }
  t.true(backwardFactor > 0);
  t.true(constants.blocksFactor > 0);
  t.true(constants.denseUpdatePasses >= 0);
  t.deepEqual(
    constants.rows.map(({ columns }) => columns),
    [4, 8, 16, 32, 64, 96, 128],
  );
  for (const { lookupId, vector, updateId } of constants.rows) {
    const seconds = lookupId + vector + updateId;
    t.true(seconds > 0 && seconds < 1e-2, `${seconds}`);
  }
  const { rowSumSeconds, idSeconds, dealSeconds } = constants;
  for (const seconds of [rowSumSeconds, idSeconds, dealSeconds]) {
    t.true(seconds > 0 && seconds < 1e-3, `${seconds}`);
  }
  t.notDeepEqual(insideHost, defaultConstants.insideHost);
  t.deepEqual(constants.acrossHosts, defaultConstants.acrossHosts);
});

test("solved row costs are never negative, whatever the measured times", (t) => {
  const seconds = fc.double({ min: 1e-9, max: 1, noNaN: true });
  const distinct = fc.double({ min: 0, max: 1, noNaN: true });
  const times = fc.record({ lookup: seconds, update: seconds, sums: seconds, distinct });
  fc.assert(
    fc.property(times, times, times, (hot, single, cold) => {
      const costs = solveRowCosts({ hot, single, cold }, 20);
      return Object.values(costs).every((cost) => cost >= 0 && Number.isFinite(cost));
    }),
    { numRuns: rounds("times of rows", 200, 10_000) },
  );
  t.pass();
});

test("row costs are solved exactly from the step times that they add up to", (t) => {
  const truth = { lookupId: 2, lookupRow: 9, vector: 5, updateId: 10, updateRow: 7 };
  const timesOf = (distinct: number, idsPerBag: number) => ({
    lookup: truth.lookupId + truth.vector / idsPerBag + distinct * truth.lookupRow,
    update: truth.updateId + distinct * truth.updateRow,
    sums: 3 + distinct * 4,
    distinct,
  });
  const scenes = { hot: timesOf(0, 20), single: timesOf(0, 1), cold: timesOf(0.9, 20) };
  const found = solveRowCosts(scenes, 20);
  for (const [name, cost] of Object.entries({ ...truth, sumsId: 3, sumsRow: 4 })) {
    near(t, found[name as keyof typeof found], cost, 1e-9);
  }
});

test.serial("a single thread measures no exchange and keeps the default constants", async (t) => {
  const options = { memoryBytes: 1, source: "a test", arithmetic: "reference", size } as const;
  const { insideHost } = await measureRates({ ...options, devices: 1 });
  t.deepEqual(insideHost, defaultConstants.insideHost);
});

test.serial("a calibration thread that fails rejects the calibration with its error", async (t) => {
  const broken = { ...size, samples: -1 };
  const options = { devices: 1, memoryBytes: 1, source: "", arithmetic: "reference" } as const;
  await t.throwsAsync(measureRates({ ...options, size: broken }, workerLauncher), {
    instanceOf: RemoteError,
  });
});
