// Costs of devices on two hosts are learned, and used by a plan, on the command line.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JobPlan } from "../../../../internal.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";
import type { LearnedSearch } from "../../index.ts";

type Feasible = Extract<JobPlan<LearnedSearch>, { isFeasible: true }>;

// In `npm test`, test/training/probe-hosts.test.ts of this package starts hosts that measure.
testIf(testAll).serial(
  "exchange costs between two host processes are learned, and used by plans over two hosts",
  async (t) => {
    const directory = startDirectory(t);
    const tables = [500, 3000, 40].map((rows, i) => ({ name: `T${i}`, rows, dim: 32 }));
    const model = { kind: "dlrm", dense: 4, dim: 32, tables, bottom: [32], top: [16, 1] };
    const data = { kind: "synthetic", samples: 1000, dense: 4, batchSize: 64, idsPerBag: 10 };
    writeFileSync(join(directory, "job.json"), JSON.stringify({ model, data }));
    const hosts = ["--devices", "2", "--hosts", "2"];
    const measure = ["plan", "--calibrate", "--learn", "--batch", "64", "--samples", "20"];
    const learned = await runOk(t, [...measure, ...hosts, "--out", "costs.st"], directory);
    t.regex(
      learned.stdout,
      /^costs\.st: costs of 2 devices on 2 hosts and batches of 64 samples\n/,
    );
    const search = ["plan", "job.json", "--cost-model", "costs.st"];
    const found = await runOk(t, [...search, ...hosts, "--json"], directory);
    const { plan, learned: by } = lastJson<Feasible>(found);
    t.deepEqual(plan.devices, { hosts: 2, perHost: 1 });
    t.true((by?.best?.cost ?? 0) > 0);
    const one = await runCli([...search, "--devices", "2"], directory);
    t.is(one.code, 2);
    t.regex(one.stderr, /devices on 1 hosts, as the plan has them, got those on 2/);
    const odd = await runCli([...measure, "--devices", "3", "--hosts", "2"], directory);
    t.is(odd.code, 2);
    t.regex(odd.stderr, /`--devices` to be a multiple of the 2 hosts, got `3`/);
  },
);
