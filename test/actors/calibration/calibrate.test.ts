// Calibration: threads measure side by side, and their results are constants that a plan can use.

import test from "ava";
import fc from "fast-check";
import { calibrate } from "../../../actors/calibration/calibrate.ts";
import { backwardCosts } from "../../../actors/threads/calibration-rows.ts";
import { RemoteError } from "../../../src/errors/errors.ts";
import { checkConstants, defaultConstants } from "../../../src/planner/cost/constants.ts";
import { workerLauncher } from "../../../src/ports/launcher.ts";

const size = {
  tableBytes: 2 ** 18,
  samples: 64,
  idsPerBag: 4,
  partBytes: 2 ** 14,
  gradientLength: 2 ** 10,
  productExtent: 32,
  rounds: 2,
};

test("two threads measure each other, and the file reads back", async (t) => {
  const options = { memoryBytes: 5e9, source: "a test", arithmetic: "reference", size } as const;
  const constants = await calibrate({ ...options, devices: 2 });
  t.deepEqual(checkConstants(JSON.parse(JSON.stringify(constants))), constants);
  t.regex(constants.source, /^a test, reference/);
  t.is(constants.memoryBytes, 5e9);
  const { insideHost, memoryBandwidth, denseFlops, backwardFactor } = constants;
  for (const rate of [memoryBandwidth, denseFlops, ...Object.values(insideHost)]) {
    t.true(rate > 1e4 && rate < 1e13, `${rate}`);
  }
  t.true(backwardFactor > 0);
  t.true(constants.blocksFactor > 0);
  for (const factor of [constants.rowPasses, constants.denseUpdatePasses]) t.true(factor >= 0);
  const { sortSeconds, rowSumSeconds, idSeconds, dealSeconds } = constants;
  t.true(sortSeconds >= 0 && sortSeconds < 1e-3, `${sortSeconds}`);
  for (const seconds of [rowSumSeconds, idSeconds, dealSeconds]) {
    t.true(seconds > 0 && seconds < 1e-3, `${seconds}`);
  }
  t.notDeepEqual(insideHost, defaultConstants.insideHost);
  t.deepEqual(constants.acrossHosts, defaultConstants.acrossHosts);
});

test("what a backward pass costs is never below 0, however the times are rounded", (t) => {
  const seconds = fc.double({ min: 1e-9, max: 1, noNaN: true });
  const times = fc.record({ lookup: seconds, gradients: seconds });
  fc.assert(
    fc.property(times, times, (narrow, wide) => {
      const { backwardFactor, sortSeconds } = backwardCosts(narrow, wide, 1000);
      return backwardFactor >= 0 && sortSeconds >= 0;
    }),
    { numRuns: 10_000 },
  );
  t.pass();
});

test("a thread alone measures no exchange", async (t) => {
  const options = { memoryBytes: 1, source: "a test", arithmetic: "reference", size } as const;
  const { insideHost } = await calibrate({ ...options, devices: 1 });
  t.deepEqual(insideHost, defaultConstants.insideHost);
});

test("a thread that fails says why", async (t) => {
  const broken = { ...size, samples: -1 };
  const options = { devices: 1, memoryBytes: 1, source: "", arithmetic: "reference" } as const;
  await t.throwsAsync(calibrate({ ...options, size: broken }, workerLauncher), {
    instanceOf: RemoteError,
  });
});
