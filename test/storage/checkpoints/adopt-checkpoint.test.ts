// A warm start's first checkpoint, made of files of another run.

import { join } from "node:path";
import test from "ava";
import type { JobSpec } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { adoptCheckpoint } from "../../../storage/checkpoints/adopt-checkpoint.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { commitCheckpoint, testJob } from "../../helpers/stores/checkpoints.ts";

test("the names of an adopted checkpoint's files survive a power cut, those of its base too, until none needs them", async (t) => {
  const home = startDirectory(t);
  const [from, to] = [join(home, "from"), join(home, "to")];
  const jobText = JSON.stringify({ model: smallModel, data: smallData });
  const source = openStore({ ...testJob, directory: from, jobText });
  source.beginGeneration();
  const { generation } = source.beginGeneration();
  const on = commitCheckpoint(source, { generation, cut: 10 });
  const { modelDigest } = commitCheckpoint(source, { generation, cut: 20, on, means: { 0: 2.5 } });
  const synced: string[] = [];
  const disk = {
    ...realDisk,
    syncDirectory: (path: string) => {
      synced.push(path);
      realDisk.syncDirectory(path);
    },
  };
  const target = openStore({ ...testJob, directory: to, jobText, disk });
  const claimed = target.beginGeneration().generation;
  const warmStart = { from, step: 20, digest: `sha256:${modelDigest}` };
  // An adoption reads only these options.
  const job = { name: "next", warmStart, checkpoint: { directory: to } } as unknown as JobSpec;
  synced.length = 0;
  const manifest = await adoptCheckpoint(target, claimed, job, "reference", disk);
  t.is(target.latest()?.sha256, manifest.sha256);
  t.deepEqual(manifest.means, { 0: 2.5 }); // Without them, predictions of missing values are NaN.
  const { checkpoint, checkpoints } = pathsOf(to);
  t.like(synced, [checkpoint(20, claimed), checkpoint(10, generation)]);
  t.true(synced.indexOf(checkpoints) > 1);
  commitCheckpoint(target, { generation: claimed, cut: 30 });
  const removed = await target.collect({ generation: claimed, keep: 1, begin: 20 });
  t.deepEqual(removed, ["000000010-g000002", "000000020-g000001"]);
});
