// Exchanges between host processes: measured through a broker, for plans over the same number of
// hosts.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { InputUnusableError, PeerLostError } from "../../../../src/errors/errors.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { measureCosts } from "../../training/measure-costs.ts";
import { probeOverHosts } from "../../training/probe-hosts.ts";

const task = { devices: 4, batchSize: 512, columnsMax: 2048, lateMax: 0 } as const;
const hostOf = [0, 0, 1, 1];

testIf(testAll).serial(
  "two host processes report what each of their devices measured, and exit",
  async (t) => {
    const exchanges = [4, 2048].map((columns) => ({
      columns: [columns, columns, columns, columns],
      late: [0, 0, 0, 0],
    }));
    const reports = await probeOverHosts(hostOf, { ...task, arithmetic: "reference", exchanges });
    t.is(reports.length, 4);
    for (const { sets, exchanges: own } of reports) {
      t.is(sets.length, 0);
      const [few, many] = own;
      if (few === undefined || many === undefined) return t.fail();
      // Two megabytes through a broker take longer than four kilobytes.
      t.true(few.forward > 0 && many.forward > few.forward, `${few.forward}, ${many.forward}`);
      t.true(few.backward > 0 && many.backward > few.backward);
    }
  },
);

test.serial("a host process whose device fails is named with the device's error", async (t) => {
  const exchanges = [{ columns: null as never, late: [0, 0] }];
  const given = { ...task, devices: 2, arithmetic: "reference", exchanges } as const;
  const error = await t.throwsAsync(probeOverHosts([0, 1], given), { instanceOf: PeerLostError });
  t.regex(error?.message ?? "", /costs-host-\d: .*null/);
});

testIf(testAll).serial("a file of measurements on two hosts is refused for one", async (t) => {
  const directory = startDirectory(t);
  const path = join(directory, "costs.measured");
  const small = {
    ...{ devices: 2, hosts: 2, batchSize: 32, secondsMax: 300, bytesMax: 2 ** 18 },
    ...{ arithmetic: "reference" as const, samples: 2, path },
  };
  const { costs, isComplete } = await measureCosts(small);
  t.true(isComplete);
  t.is(costs.hosts, 2);
  t.is(costs.exchange.length, 2);
  t.true(costs.exchange.every(({ forward }) => forward.every((ms) => ms > 0)));
  t.regex(readFileSync(path, "utf8"), /^\{.*"devices":2,"hosts":2,/);
  await t.throwsAsync(measureCosts({ ...small, hosts: 1 }), {
    instanceOf: InputUnusableError,
    message: /but it begins with .*"hosts":2/s,
  });
});
