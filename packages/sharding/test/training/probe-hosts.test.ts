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

test.serial("a host process whose device fails is named with the device's error", async (t) => {
  const exchanges = [{ columns: null as never, late: [0, 0] }];
  const task = { devices: 2, batchSize: 512, columnsMax: 2048, lateMax: 0 };
  const given = { ...task, arithmetic: "reference", exchanges } as const;
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
