// A device slower than the others is named as a straggler, and gets fewer slices.

import test from "ava";
import type { JobOptions } from "../../../index.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

const job: Partial<JobOptions> = { data: { epochs: 3 } as JobOptions["data"] };

test.serial("a slow device is named, gets fewer slices, and changes no bit", async (t) => {
  await using place = await startCluster(3);
  const { result: calm } = await runJob(place, place.job({ ...job, devices: 1 }));
  // In virtual time a step takes no time by itself, and a median of 0 allows no comparison.
  const slow = { step: 10, point: 0, effect: "slow" } as const;
  const devices = [5, 60, 5].map((slowMs, device) => ({ actor: `device:${device}`, slowMs }));
  const generations = [1, 2, 3];
  place.threads.plan(
    generations.flatMap((generation) => devices.map((one) => ({ ...slow, ...one, generation }))),
  );
  const { result, events } = await runJob(place, place.job(job));
  t.is(result.digest, calm.digest);
  t.deepEqual(result.history, calm.history);
  t.deepEqual(only(events, "run.incident"), []);
  const [named] = only(events, "run.straggler");
  t.like(named, { device: 1, host: 0, generation: 1 });
  t.true((named?.factor ?? 0) >= 2, `${named?.factor}`);
  const [first = [], second = []] = only(events, "run.started").map(({ slices }) => slices);
  t.deepEqual(first, [2, 3, 3]);
  t.is(second[1], 1, `${second}`);
  t.is(
    second.reduce((sum, count) => sum + count, 0),
    8,
  );
  t.log(`factor ${named?.factor.toFixed(1)}, slices ${first} then ${second}`);
});
