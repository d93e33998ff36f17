// A run that adapts its plan to the measured times of its devices: the model is the same, whatever
// the plan.

import test from "ava";
import type { JobOptions } from "../../../index.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

const tables = Array.from({ length: 8 }, (_, i) => ({ name: `t${i}`, rows: 400, dim: 8 }));
const model: JobOptions["model"] = { kind: "dlrm", dense: 4, tables, bottom: [8, 8], top: [8, 1] };

const jobOn = (place: EitherCluster, more: Partial<JobOptions> = {}) =>
  place.job({ model, sharding: "auto", ...more, data: { epochs: 3 } as JobOptions["data"] });

test.serial("a run adopts a plan derived from its meters, and no bit changes", async (t) => {
  await using place = await startCluster(2);
  const calm = await runJob(place, jobOn(place));
  // One device is slower than its tables predict, but not so slow that it counts as a straggler and
  // gets fewer slices.
  const slow = { step: 1, point: 0, effect: "slow" } as const;
  place.threads.plan(
    [1, 2, 3, 4, 5].flatMap((generation) => [
      { ...slow, actor: "device:0", generation, slowMs: 20 } as const,
      { ...slow, actor: "device:1", generation, slowMs: 34 } as const,
    ]),
  );
  const adapt = { everySteps: 8, gainMin: 0, margin: 0 };
  const { result, events } = await runJob(place, jobOn(place, { planner: { adapt } }));
  t.is(result.digest, calm.result.digest);
  t.deepEqual(result.history, calm.result.history);
  t.deepEqual(only(events, "run.incident"), []);
  t.deepEqual(only(events, "run.alert"), []);
  t.deepEqual(only(events, "run.scaled"), []);
  const sought = only(events, "run.replanned");
  const taken = sought.filter(({ isTaken }) => isTaken);
  t.true(taken.length > 0, JSON.stringify(sought));
  const adapted = only(events, "run.adapted");
  // A plan that is adopted in the last steps is not used: the run ends before.
  t.true(adapted.length >= 1 && adapted.length >= taken.length - 1);
  t.like(adapted[0], { generation: 2 });
  const plans = only(events, "run.started").map(({ plan }) => plan?.sha256);
  t.true(plans.length > adapted.length);
  t.not(plans[1], plans[0]);
  t.log(
    sought.map(({ step, gain, isTaken }) => `${step}: ${gain.toFixed(3)} ${isTaken}`).join("; "),
  );
});

test.serial("a plan that does not pay for the move to it is not adopted", async (t) => {
  await using place = await startCluster(2);
  const adapt = { everySteps: 8, margin: 1000 };
  const { events } = await runJob(place, jobOn(place, { planner: { adapt } }));
  const sought = only(events, "run.replanned");
  t.true(sought.length > 0);
  t.deepEqual(
    sought.filter(({ isTaken }) => isTaken),
    [],
  );
  t.is(only(events, "run.started").length, 1);
});

test("a job that fixes its plan cannot adapt it", (t) => {
  const error = t.throws(
    () =>
      resolveJob({
        model,
        data: { kind: "synthetic", samples: 64, dense: 4, batchSize: 8 },
        sharding: "as-written",
        planner: { adapt: true },
      }),
    { instanceOf: InvalidOptionError },
  );
  t.regex(error?.message ?? "", /`planner.adapt` to be left out, as `sharding` is "as-written"/);
});
