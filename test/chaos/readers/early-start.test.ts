// A run that begins while its files are still being indexed trains the same model as a run that
// waits for the index, even if indexing stalls and the run restarts with half of the index.

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import type { RunEvent } from "../../../index.ts";
import type { Launcher, Thread } from "../../../src/ports/launcher.ts";
import { startDirectory } from "../../data/data-files.ts";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import { dataOfDays, modelOfDays, writeDays } from "../../helpers/clusters/days.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { startVirtualCluster } from "../../helpers/clusters/virtual-clusters.ts";

function jobOf(place: Pick<EitherCluster, "job">, home: string, data: object) {
  const job = place.job({
    model: { ...modelOfDays, tables: modelOfDays.tables.slice(0, 2) },
    evaluation: { everySteps: 20, fraction: 0.2, split: { kind: "order" } },
  });
  const own = { transforms: undefined, categorical: ["user", "item"], streamed: true, passes: 1 };
  const all = { cache: job.data.cache, shuffle: false, ...own, ...data };
  return { ...job, data: dataOfDays(home, all) };
}

/** A launcher that drops the reports of the first preparation that a file has been indexed. */
function silent(launcher: Launcher): Launcher {
  let preparations = 0;
  return {
    start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report> {
      const thread = launcher.start<Command, Report>(entry, data, name);
      if (name !== "prepare" || preparations++ > 0) return thread;
      return {
        ended: thread.ended,
        send: (command) => thread.send(command),
        kill: () => thread.kill(),
        onObservation: (take) => thread.onObservation(take),
        onReport(take) {
          thread.onReport((report) => {
            if ((report as { readonly type?: string }).type !== "indexed") take(report);
          });
        },
      };
    },
  };
}

test.serial("a run that begins before its files are indexed trains the same model", async (t) => {
  const home = writeDays(t);
  const cache = join(startDirectory(t), "cache");
  const filesIn = () => readdirSync(cache).filter((name) => name.endsWith(".index.cache"));
  await using calm = startVirtualCluster(2);
  const waits = await runJob(calm, jobOf(calm, home, { startEarly: false }));
  await using place = startVirtualCluster(2, { over: silent });
  const job = jobOf(place, home, { startEarly: true, cache });
  let wholeAt: readonly string[] = [];
  const { result, events } = await runJob(place, job, (event: RunEvent) => {
    if (event.type !== "run.incident") return;
    wholeAt = filesIn();
    for (const name of wholeAt) rmSync(join(cache, name));
    const [, second = ""] = readdirSync(join(cache, "file-indexes"));
    rmSync(join(cache, "file-indexes", second));
  });
  t.is(result.digest, waits.result.digest);
  t.deepEqual(result.history, waits.result.history);
  t.is(result.generation, 2);
  t.true(wholeAt.some((name) => name.endsWith(".early.index.cache")));
  const [incident] = only(events, "run.incident");
  // The run has trained the steps of the first one or two files, and waits for the next file.
  t.regex(
    JSON.stringify(incident),
    /the index of the files of a step after step (13|29) from host:0/,
  );
  const before = events.slice(
    0,
    events.findIndex(({ type }) => type === "run.incident"),
  );
  const last = only(before, "run.checkpointed").at(-1)?.step ?? 0;
  t.true(last > 0 && last < 38, "it has trained some steps, not all");
});
