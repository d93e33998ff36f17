// A checkpoint of a model that was not trained: every dense parameter is drawn, so that no gain is
// 1 and no bias 0, as rows are from the job's seed. Quicker than training, for any architecture.

import { weightedOf } from "../../../src/data/text/match-features.ts";
import { type JobOptions, type JobSpec, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createSoloDevice } from "../../../src/training/loop/inference-device.ts";
import { openStore } from "../../../storage/checkpoint-store/directory-checkpoint-store.ts";
import { bytesOfParts, leavesOfParts } from "../devices/parts.ts";

/** Writes it into the job's directory. Returns the job, complete. */
export async function drawModel(options: JobOptions): Promise<JobSpec> {
  const job = resolveJob(options);
  const { model, slices, optimizer, seed, data, checkpoint } = job;
  const kernels = openKernels("reference");
  const shapes = shapesOf(model);
  const idsMax = shapes.map(() => 1);
  const weighted = weightedOf(data, shapes);
  const input = { model, slices, idsMax, weighted, batchSize: 4 };
  const device = createSoloDevice({ input, recipe: { optimizer, seed }, kernels });
  const { layout } = device.topology.graph;
  const stream = new RandomStream(seed, 1, 7);
  const flat = new Float32Array(layout.length);
  for (const { name, first, length, shape } of layout.parameters) {
    const scale = shape.length > 1 ? 1.5 / Math.sqrt(shape.at(-1) ?? 1) : 0.5;
    for (let i = first; i < first + length; i++) {
      const drawn = (2 * stream.uniform() - 1) * scale;
      flat[i] = name.endsWith(".running_var") ? 0.5 + Math.abs(drawn) : drawn;
    }
  }
  kernels.write(device.network.flat, flat);
  const store = openStore({
    directory: checkpoint.directory,
    jobIdentity: jobIdentity(job),
    jobText: JSON.stringify(job),
  });
  const { generation } = store.beginGeneration();
  const parts = [...(await bytesOfParts([device]))].map(([name, bytes]) => {
    const writer = store.partWriter(generation, 1, name);
    writer.write(bytes);
    return writer.finish();
  });
  const modelDigest = digestOf(await leavesOfParts([device]), model.tables);
  const about = { run: "r1", metrics: null, position: null, createdBy: "test", best: false };
  store.commit({
    ...about,
    ...{ generation, cut: 1, parts, modelDigest, arithmetic: kernels.arithmetic },
  });
  return job;
}
