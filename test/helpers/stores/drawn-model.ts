// A checkpoint of an untrained model: every dense parameter is random, so that no gain is 1 and no
// bias 0, and rows come from the job's seed. Half of the rows of dynamic tables have an id. Faster
// than training, for any architecture.

import type { Means } from "../../../src/data/cache/cache-format.ts";
import { weightedOf } from "../../../src/data/text/match-features.ts";
import { type JobOptions, type JobSpec, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createSoloDevice } from "../../../src/training/loop/inference-device.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { bytesOfParts, leavesOfParts } from "../devices/parts.ts";
import { writePart } from "./checkpoints.ts";

/**
 * Writes the checkpoint into the job's directory. `means`: the means of the job's data. Returns the
 * resolved job.
 */
export async function drawModel(options: JobOptions, means?: Means): Promise<JobSpec> {
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
  for (const ids of device.ids) {
    const admit = ids?.admitting(0);
    for (const id of admit === undefined ? [] : drawnIds(model, ids?.shard.table ?? 0)) {
      admit?.(Number(BigInt.asIntN(32, id)), Number(id >> 32n));
    }
  }
  const store = openStore({
    directory: checkpoint.directory,
    jobIdentity: jobIdentity(job),
    jobText: JSON.stringify(job),
  });
  const { generation } = store.beginGeneration();
  const parts = [...(await bytesOfParts([device]))].map(([name, bytes]) =>
    writePart(store, { generation, cut: 1, name }, bytes),
  );
  const modelDigest = digestOf(await leavesOfParts([device]), model.tables);
  const about = { run: "r1", metrics: null, position: null, createdBy: "test", best: false };
  store.commit({
    ...{ ...about, ...(means && { means }) },
    ...{ generation, cut: 1, parts, modelDigest, arithmetic: kernels.arithmetic },
  });
  return job;
}

/** The ids of a dynamic table: one for half of its rows, extreme 64-bit values included. */
export function drawnIds({ tables }: JobSpec["model"], table: number): bigint[] {
  const stream = new RandomStream(11, 1, table);
  const word = () => BigInt(stream.below(2 ** 31)) * 2n + BigInt(stream.below(2));
  const count = (tables[table]?.rows ?? 0) >> 1;
  const ends = [0n, -1n, 2n ** 63n - 1n, -(2n ** 63n)].slice(0, count);
  const drawn = Array.from({ length: count - ends.length }, () => {
    return BigInt.asIntN(64, (word() << 32n) | word());
  });
  return [...ends, ...drawn];
}
