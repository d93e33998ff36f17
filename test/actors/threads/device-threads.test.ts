// The threads of a device as an option of its process.

import test from "ava";
import { Cluster } from "../../../internal.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { type Launcher, workerLauncher } from "../../../src/ports/launcher.ts";
import { runJob, startTestCluster } from "../../helpers/clusters/clusters.ts";
import { calmRun } from "../../helpers/clusters/either-clusters.ts";

test.serial("a cluster passes its threads to its devices, and the model is the same", async (t) => {
  const given: unknown[] = [];
  const launcher: Launcher = {
    start(entry, data, name) {
      if (name.startsWith("device")) given.push((data as { threads?: number }).threads);
      return workerLauncher.start(entry, data, name);
    },
  };
  await using place = await startTestCluster(1, { threads: 2, launcher });
  const { result } = await runJob(place, place.job());
  t.deepEqual(given, [2]);
  t.is(result.digest, (await calmRun()).digest);
});

test("options that are no object, and threads that no machine has, are refused", async (t) => {
  await t.throwsAsync(Cluster.start(2 as never), {
    instanceOf: InvalidOptionError,
    message: "Expected `options` to be an object, got `2` (number)",
  });
  await t.throwsAsync(Cluster.start({ threads: 257 }), {
    instanceOf: InvalidOptionError,
    message: "Expected `threads` to be a number <= 256, got `257` (number)",
  });
});
