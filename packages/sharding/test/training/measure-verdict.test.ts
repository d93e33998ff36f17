// The verdict on learned costs: its statistics, and a whole measurement with tiny tables on
// threads.

import { join } from "node:path";
import test from "ava";
import { readVerdict } from "../../../../actors/threads/data/own-costs.ts";
import { machineKeyOf } from "../../../../actors/threads/kept-constants.ts";
import { hashOfCosts } from "../../../../src/job/job-files.ts";
import { defaultConstants } from "../../../../src/planner/cost/constants.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { drawnNetworks } from "../../../../test/helpers/cost-networks.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { writeCostNetworks } from "../../files/cost-networks-file.ts";
import { heldOutTables } from "../../training/held-out-jobs.ts";
import {
  measureVerdict,
  pairedGain,
  tQuantile,
  verdictOf,
} from "../../training/measure-verdict.ts";

test("Student's t is that of published tables", (t) => {
  for (const [freedom, published] of [
    [3, 3.182],
    [5, 2.571],
    [10, 2.228],
    [23, 2.069],
    [1000, 1.962],
  ] as const) {
    t.true(Math.abs(tQuantile(freedom) / published - 1) < 0.01, `${tQuantile(freedom)}`);
  }
});

test("learned costs win only by a mean above the margin with an interval above 0", (t) => {
  t.like(verdictOf([0.03, 0.05, 0.04, 0.04]), { isFaster: true });
  t.false(verdictOf([0.012, 0.013, 0.012, 0.011]).isFaster, "certain, but too small");
  t.false(verdictOf([0.4, -0.3, 0.2, -0.1]).isFaster, "large, but uncertain");
  t.false(verdictOf([-0.03, -0.05, -0.04, -0.04]).isFaster, "slower");
  t.false(verdictOf([0, 0, 0, 0]).isFaster, "the same plans");
  t.throws(() => verdictOf([1, 1, 1]), { code: "INVALID_OPTION", message: /at least 4 sets/ });
});

test("an interval covers the true gain in 95 of 100 measurements", (t) => {
  const random = new RandomStream(7, 1);
  const rounds = 2000;
  let covered = 0;
  for (let round = 0; round < rounds; round++) {
    const { low, high } = verdictOf(Array.from({ length: 8 }, () => 0.03 + 0.1 * random.normal()));
    if (low <= 0.03 && 0.03 <= high) covered++;
  }
  t.true(Math.abs(covered / rounds - 0.95) < 0.02, `${covered / rounds}`);
});

test("a machine that slows down between the passes changes no gain of a pair", (t) => {
  const ways = ["learned", "formulas", "formulas", "learned"] as const;
  // The learned plan takes 9 ms, that of the formulas 10; the second pair is twice as slow.
  t.true(Math.abs(pairedGain(ways, [9, 10, 20, 18]) - 0.1) < 1e-12);
});

// In `npm test`, own-costs.test.ts plans by a verdict, and the tests above compute one.
testIf(testAll).serial(
  "plans by learned costs and by formulas are timed on threads, and the verdict kept",
  async (t) => {
    const folder = startDirectory(t);
    const path = join(folder, "costs.safetensors");
    await writeCostNetworks(path, drawnNetworks(2, 2), {});
    const times = { warmUpMs: 1, warmUpSteps: 1, longestMs: 100, sampleMs: 1, samples: 2 };
    const done: number[] = [];
    const found = await measureVerdict({
      ...{ path, sets: 4, constants: defaultConstants, onSet: (set) => done.push(set) },
      times: { compiling: { ...times, samples: 0 }, counting: times },
      rounds: 1,
      tablesOf: (index) => {
        const tables = heldOutTables(1, index, 1).slice(0, 3);
        return tables.map((table) => ({ ...table, rows: 5000, idsMean: 2 }));
      },
    });
    t.deepEqual(done, [1, 2, 3, 4]);
    t.deepEqual(readVerdict(path), found);
    t.like(found, { machine: machineKeyOf("auto"), sha256: hashOfCosts(path, undefined) });
    t.like(found, { batchSize: 64, sets: 4, verdict: { devices: 2 } });
    t.true(found.differing > 0 && found.differing <= 4);
    const { low, gain, high } = found.verdict;
    t.true(low < gain && gain < high && gain < 1, JSON.stringify(found.verdict));
    await writeCostNetworks(path, { ...drawnNetworks(2, 2), hosts: 2 }, {});
    const options = { path, sets: 4, constants: defaultConstants };
    await t.throwsAsync(measureVerdict(options), {
      code: "INVALID_OPTION",
      message: /costs of one host/,
    });
  },
);
