// Measuring for cost networks: results are appended line by line, so that a stopped measurement
// resumes.

import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { exchangeProbe, setProbe } from "../../../../actors/threads/costs/cost-probes.ts";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { measureCosts } from "../../training/measure-costs.ts";

function pathOf(t: ExecutionContext): string {
  const directory = startDirectory(t);
  return join(directory, "costs.measured");
}

const small = {
  ...{ devices: 2, batchSize: 32, secondsMax: 300, bytesMax: 2 ** 18 },
  arithmetic: "reference",
} as const;
const limits = { seed: 1, devices: 2, bytesMax: 2 ** 18, columnsMax: 2048 };

testIf(testAll).serial("costs are measured, kept in a file, and resumed from it", async (t) => {
  const path = pathOf(t);
  const shares: number[] = [];
  const first = await measureCosts({
    ...{ ...small, samples: 3, path },
    onProgress: (done) => shares.push(done),
  });
  t.true(first.isComplete);
  // Three passes over the sets, then three over the exchanges.
  t.deepEqual(shares, [0.5, 1]);
  const { compute, exchange } = first.costs;
  t.is(compute.length, 3);
  t.is(exchange.length, 3);
  for (const [i, { tables, milliseconds }] of compute.entries()) {
    t.true(milliseconds > 0);
    t.deepEqual(
      tables.map(({ dim }) => dim),
      setProbe(limits, i).map(({ dim }) => dim),
    );
  }
  for (const [i, cost] of exchange.entries()) {
    t.deepEqual(cost.columns, exchangeProbe(limits, i).columns);
    t.true([...cost.forward, ...cost.backward].every((ms) => ms > 0 && ms < 1e5));
    t.is(Math.min(...cost.late), 0);
  }

  // A line that a kill cut off is measured again; complete lines are kept.
  const before = readFileSync(path, "utf8");
  appendFileSync(path, '{"exchange":3,"lat');
  const more = await measureCosts({ ...small, samples: 4, path });
  t.true(readFileSync(path, "utf8").startsWith(before));
  t.deepEqual(more.costs.compute.slice(0, 3), compute);
  t.is(more.costs.exchange.length, 4);
});

test.serial(
  "a measurement out of time keeps its results; the fastest pass over a probe counts",
  async (t) => {
    const path = pathOf(t);
    const none = await measureCosts({ ...small, samples: 2, path, secondsMax: 0 });
    t.false(none.isComplete);
    t.is(none.costs.compute.length, 0);
    const { costs, isComplete } = await measureCosts({ ...small, samples: 2, path });
    t.true(isComplete);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n").slice(1);
    const measured = lines.map(
      (line) => JSON.parse(line) as { set?: number; milliseconds: number },
    );
    const first = measured.filter(({ set }) => set === 0).map(({ milliseconds }) => milliseconds);
    t.is(first.length, 3);
    t.is(costs.compute[0]?.milliseconds, Math.min(...first));
    const slow = { exchange: 1, lateMax: 1, forward: [1e6, 1e-6], backward: [1e6, 1e6] };
    appendFileSync(path, `{"set":0,"milliseconds":1e6}\n${JSON.stringify(slow)}\n`);
    const again = await measureCosts({ ...small, samples: 2, path });
    t.deepEqual(again.costs.compute, costs.compute);
    t.is(again.costs.exchange[1]?.forward[0], costs.exchange[1]?.forward[0]);
    t.is(again.costs.exchange[1]?.forward[1], 1e-6);

    // A file with other settings, or a damaged one, is not resumed.
    const other = { ...small, batchSize: 64, samples: 2, path };
    await t.throwsAsync(measureCosts(other), {
      instanceOf: InputUnusableError,
      message:
        /measurements that can be continued, but it begins with .*"batchSize":32.*remove the file/s,
    });
    appendFileSync(path, "nothing\n");
    await t.throwsAsync(measureCosts({ ...small, samples: 4, path }), {
      message: /its line 16 is no measurement/,
    });
  },
);

test("a probe is a function of its index and stays within the limits", (t) => {
  for (let index = 0; index < 200; index++) {
    const tables = setProbe(limits, index);
    t.deepEqual(setProbe(limits, index), tables);
    t.true(tables.length >= 1 && tables.length <= 24);
    const floor = tables.reduce((sum, { dim }) => sum + 100 * dim * 4, 0);
    const bytes = tables.reduce((sum, { rows, dim }) => sum + rows * dim * 4, 0);
    t.true(bytes <= limits.bytesMax + floor);
    const { columns, late } = exchangeProbe(limits, index);
    t.true(columns.every((own) => own <= limits.columnsMax));
    t.true(late.every((own) => own >= 0 && own <= 1));
  }
});
