// Jobs with many tables through a whole cluster: submit, train, checkpoint, a failure, restore.
// Messages that grow with the tables travel in chunks, so no limit of a frame refuses the job.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "ava";
import { wideJob } from "../../../bench/tables/wide-job.ts";
import type { JobOptions, RunEvent } from "../../../internal.ts";
import { runJob } from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";

/** The wide job on a small CSV file: generated data would cost more than the training. */
function jobOf(place: EitherCluster, tables: number): JobOptions {
  const { directory = "" } = place.job().checkpoint ?? {};
  const wide = wideJob(tables, directory);
  const path = join(dirname(directory), `wide-${tables}.csv`);
  const names = wide.model.tables?.map(({ name }) => name) ?? [];
  const dense = ["d0", "d1", "d2", "d3"];
  mkdirSync(dirname(path), { recursive: true });
  const lines = Array.from({ length: 64 }, (_, line) =>
    [
      line % 2,
      ...dense.map((_, at) => line * at),
      ...names.map((_, at) => (line * at) % 50),
    ].join(),
  );
  writeFileSync(path, [["label", ...dense, ...names].join(), ...lines, ""].join("\n"));
  return {
    ...wide,
    data: {
      ...{ kind: "csv", paths: [path], label: "label", dense, categorical: names },
      ...{ batchSize: 16, epochs: 2, cache: join(dirname(directory), "cache") },
    },
    stepDeadlineMs: 60_000,
  } as JobOptions;
}

function restoredBytes(events: readonly RunEvent[]): number {
  return events.reduce((sum, event) => {
    return event.type === "run.recovered" ? sum + event.memoryBytes + event.storeBytes : sum;
  }, 0);
}

test.serial(
  "a job of 300 tables whose shard dies continues from its checkpoint, with the same model",
  async (t) => {
    const digests: (string | undefined)[] = [];
    for (const isBroken of [false, true]) {
      // Small frames: submission, spec and manifest need chunks, as those of 10,000 tables do.
      await using place = startVirtualCluster(2, { frameBytesMax: 16_384 });
      const job = jobOf(place, 300);
      const { result, events } = await runJob(place, job, async (event, { run }) => {
        if (!isBroken || event.type !== "run.checkpointed" || event.generation > 1) return;
        // The actor of this shard starts with its first message, and dies of it.
        const scope = { run, generation: 1 };
        await place.throwIn({ role: "shard", index: 200, scope }, "thrown in a shard");
      });
      digests.push(result.digest);
      t.is(result.step, 8);
      const restored = restoredBytes(events);
      t.is(restored > 300 * 32, isBroken, `${restored} bytes restored`);
    }
    t.is(digests[0], digests[1]);
  },
);
