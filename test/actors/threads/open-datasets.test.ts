// Hosts with different data under the same name do not train together.

import { join } from "node:path";
import test from "ava";
import { openDatasets } from "../../../actors/threads/data/open-datasets.ts";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { InputUnusableError } from "../../../internal.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../../data/data-files.ts";
import { clicksData, clicksModel, writeClicks } from "../../helpers/clusters/clicks.ts";

test("a host whose cache has other samples than the first host's refuses to read them", async (t) => {
  const directory = startDirectory(t);
  const train = writeClicks(join(directory, "train.csv"), 300, 1);
  const valid = writeClicks(join(directory, "valid.csv"), 100, 2);
  const job = resolveJob({
    model: clicksModel,
    data: clicksData([train], join(directory, "cache")),
    evaluation: { data: { paths: [valid] } },
  });
  const data = await prepareData(job, realDisk, () => {});
  const { training, evaluation } = await openDatasets({ job, data }, realDisk);
  t.deepEqual([training.samples, evaluation?.samples], [300, 100]);
  training.close();
  evaluation?.close();
  const { training: own, evaluation: held } = data.contents;
  for (const [path, contents] of [
    [data.training.path, { training: { ...own, digest: "other" }, evaluation: held }],
    [data.evaluation?.path, { training: own, evaluation: own }],
  ] as const) {
    const error = await t.throwsAsync(
      () => openDatasets({ job, data: { ...data, contents } }, realDisk),
      {
        instanceOf: InputUnusableError,
        message:
          /has other samples on this host than on the first host: give all hosts the same files/,
      },
    );
    t.is(error.path, path ?? "");
  }
});
