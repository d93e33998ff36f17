// Makes a checkpoint of an untrained model in a temporary directory, as the cost of serving does
// not depend on the weights.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JobOptions, type JobSpec, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { partsOf } from "../../../src/training/checkpoint/parts.ts";
import { createSoloDevice } from "../../../src/training/loop/inference-device.ts";
import type { PartRecord } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../../storage/checkpoints/store/directory-checkpoint-store.ts";

/**
 * The job, and its checkpoint directory, which the caller removes. With `hasRows` the checkpoint
 * has all rows, as if steps had trained them; else none.
 */
export async function drawnCheckpoint(
  model: JobOptions["model"],
  hasRows = false,
): Promise<{ job: JobSpec; directory: string }> {
  const directory = join(mkdtempSync(join(tmpdir(), "osiris-serve-")), "checkpoints");
  const { dense = 0 } = model;
  const job = resolveJob({
    model,
    data: { kind: "synthetic", samples: 8, dense, batchSize: 8 },
    checkpoint: { directory },
  });
  const kernels = openKernels("auto");
  const { slices, optimizer, seed } = job;
  const idsMax = shapesOf(job.model).map(() => 1);
  const input = { model: job.model, slices, idsMax, batchSize: 1 };
  const device = createSoloDevice({ input, recipe: { optimizer, seed }, kernels });
  const stream = new RandomStream(1, 1, 1);
  const { length } = device.topology.graph.layout;
  const drawn = Float32Array.from({ length }, () => 0.1 * (stream.uniform() - 0.5));
  kernels.write(device.network.flat, drawn);
  if (hasRows) for (const { touched } of device.slab.rowsOf) touched.fill(1);
  const of = { directory, jobIdentity: jobIdentity(job), jobText: JSON.stringify(job) };
  const store = openStore(of);
  const { generation } = store.beginGeneration();
  const parts: PartRecord[] = [];
  const leaves = new Map<string, readonly string[]>();
  for (const part of partsOf(device)) {
    const writer = store.partWriter(generation, 1, part.name);
    for await (const bytes of part.bytes()) writer.write(bytes);
    parts.push(writer.finish());
    leaves.set(part.name, await part.leaves());
  }
  const modelDigest = digestOf(leaves, job.model.tables);
  const about = { run: "bench", metrics: null, position: null, createdBy: "bench", best: false };
  const { arithmetic } = kernels;
  store.commit({ ...about, generation, cut: 1, parts, modelDigest, arithmetic });
  return { job, directory };
}
