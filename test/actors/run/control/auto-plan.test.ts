// A run plans its own placement: the model is the same whatever the plan, a plan fits tables into
// memory that do not fit as written, and lost devices cause a new plan.

import test from "ava";
import { planOrNone } from "../../../../actors/threads/data/plan-program.ts";
import { Host, type JobOptions, verifyRun } from "../../../../index.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { startDirectory } from "../../../data/data-files.ts";
import {
  inEpochs,
  only,
  runJob,
  smallData,
  smallModel,
  startTestCluster,
} from "../../../helpers/clusters/clusters.ts";
import { startCluster } from "../../../helpers/clusters/either-clusters.ts";
import { setEnvironment } from "../../../helpers/environment.ts";
import { testAll, testIf } from "../../../helpers/needs.ts";

const auto = { sharding: "auto" } as const;

/** Large enough that replicating the tables would be slow. */
const tables = [4000, 3000, 2500, 900, 800, 700].map((rows, i) => {
  return { name: `T${i}`, rows, dim: 8, rowBlocks: 8 } as const;
});
const skewed = {
  ...auto,
  stepDeadlineMs: 60_000, // Also the deadline of a plan search.
  model: { ...smallModel, tables },
  data: { ...smallData, idsPerBag: { min: 1, max: 9 } } as JobOptions["data"],
} satisfies Partial<JobOptions>;

testIf(testAll).serial(
  "tables that fit only by a plan, not as written, train to the same model",
  async (t) => {
    const large = tables.map((table) => ({ ...table, rows: 60 * table.rows }));
    const job = { ...skewed, devices: 2, model: { ...smallModel, tables: large } };

    // The rows of all tables take 26 MB, with optimizer state.
    const world = { memoryBytes: 24_000_000 };
    await using place = await startTestCluster(2, { world });
    const error = await t.throwsAsync(runJob(place, place.job({ ...job, sharding: "as-written" })));
    t.regex(
      error?.message ?? "",
      /tables need 0\.02\d+ GB of memory on host:0, which has 0\.024 GB/,
    );
    const { result, events } = await runJob(place, place.job(job));
    t.true((await verifyRun(result.directory, { from: "start", devices: 1 })).isEqual);
    const [started] = only(events, "run.started");
    t.true((started?.plan?.cached ?? 0) > 0);
    t.regex(started?.plan?.note ?? "", /do not fit into memory/);
  },
);

testIf(testAll).serial(
  "an unmeasured machine plans for its cores; after a lost host, the other two plan again",
  async (t) => {
    const empty = startDirectory(t);
    setEnvironment(t, { OSIRIS_CONSTANTS: "", XDG_CACHE_HOME: empty });
    await using place = await startTestCluster(1, { minDevices: 3 });
    const { url: nats, token = "" } = place.cluster;
    const hosts = [1, 2].map(() => Host.join({ nats, token, devices: 1 }));
    const [staying, leaving] = await Promise.all(hosts);
    const job = place.job(skewed);
    const { result, events } = await runJob(place, inEpochs(job, 4), async (event) => {
      if (event.type === "run.progress" && event.step > 20) await leaving?.close();
    });
    await staying?.close();
    const plans = only(events, "run.started").map(({ plan, devices }) => ({ ...plan, devices }));
    t.deepEqual([plans[0]?.devices, plans.at(-1)?.devices], [3, 2]);
    for (const { by, constants: named, imbalance, stepSeconds } of plans) {
      t.is(by, "auto");
      t.is(stepSeconds, undefined); // This machine's speed is unknown.
      t.regex(named ?? "", /small server/);
      t.true((imbalance ?? 9) <= 1.1, `${imbalance}`);
    }
    await using alone = await startCluster(1);
    const calm = await runJob(alone, inEpochs(alone.job(skewed), 4));
    t.is(result.digest, calm.result.digest);
  },
);

test("a failed plan search is noted with its reason, and tables are placed as written", async (t) => {
  const job = resolveJob(skewedJob());
  const request = { hosts: [2], memoryBytes: 1e9 };
  const found = await planOrNone(job, request, {}, () =>
    Promise.reject(new InvalidOptionError("cores", "Expected `cores` to be there")),
  );
  t.deepEqual(found, {
    report: {
      by: "as-written",
      note:
        "the search for a plan failed (Expected `cores` to be there): " +
        "each table is placed as written",
    },
  });
});

function skewedJob(): JobOptions {
  return { model: skewed.model, data: skewed.data };
}
