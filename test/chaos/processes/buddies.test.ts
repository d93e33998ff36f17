// The newest checkpoint is also in the memory of hosts: a lost host's part is restored from its
// buddy's replica, and nothing is read from the checkpoint store.

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  calmResult,
  inEpochs,
  only,
  runJob,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { startHost } from "../../helpers/processes/host-processes.ts";

/**
 * Overwrites every part in a store with zeros of the same size, so that no run can restore from it.
 * Returns a function that puts the parts back.
 */
function damageParts(directory: string): () => void {
  const files = new Map<string, Uint8Array>();
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    const path = join(directory, name);
    if (!name.endsWith(".json") && statSync(path).isFile()) files.set(path, readFileSync(path));
  }
  for (const [path, bytes] of files) writeFileSync(path, new Uint8Array(bytes.length));
  return () => {
    for (const [path, bytes] of files) writeFileSync(path, bytes);
  };
}

testIf(testAll).serial(
  "one of three hosts is restored with an unreadable store; all three hosts from the store",
  async (t) => {
    await using place = await startTestCluster(0, { minDevices: 3 });
    const { cluster } = place;
    const start = () => startHost(t, cluster, { devices: 1 });
    const [first, second, third] = await Promise.all([start(), start(), start()]);
    const job = inEpochs(
      place.job({ checkpoint: { everySteps: 60, differential: "one-shot" } }),
      8,
    );
    let mend = () => {};
    const { result, events } = await runJob(place, job, async (event) => {
      if (event.type === "run.started" && event.generation === 2) mend();
      if (event.type !== "run.buddies") return;
      if (event.generation === 1 && event.step === 120) {
        second?.kill("SIGSTOP"); // No step completes from here on.
        mend = damageParts(join(job.checkpoint?.directory ?? "", "checkpoints"));
        second?.kill("SIGKILL");
      }
      if (event.generation === 2 && event.step === 180) {
        first?.kill("SIGKILL");
        third?.kill("SIGKILL");
        await start();
      }
    });
    t.is(result.digest, (await calmResult(8)).digest);
    const [rebuilt, ...others] = only(events, "run.recovered");
    const restored = others.at(-1);
    t.like(rebuilt, { generation: 2, fromStep: 120, storeBytes: 0 });
    t.true((rebuilt?.memoryBytes ?? 0) > 0);
    t.like(restored, { fromStep: 180, memoryBytes: 0 });
    t.true((restored?.storeBytes ?? 0) > 0);
    const copied = only(events, "run.buddies");
    t.true(copied.every(({ missing, bytes }) => missing === 0 && bytes > 0));
    t.log(`recovery, s: ${rebuilt?.seconds.toFixed(1)} out of memory`);
  },
);
