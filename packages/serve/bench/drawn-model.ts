// Draws a checkpoint of an untrained model in a temporary directory, as the cost of serving does
// not depend on the weights, and requests with Zipf-distributed ids; measures latencies.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quantileOf } from "../../../bench/row.ts";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import type { SampleRecord } from "../../../src/data/records.ts";
import { Zipf } from "../../../src/data/synthetic/zipf.ts";
import { type JobOptions, type JobSpec, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { featuresOf, shapesOf } from "../../../src/model/features.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { partsOf } from "../../../src/training/checkpoint/parts.ts";
import { createSoloDevice } from "../../../src/training/loop/inference-device.ts";
import type { PartRecord } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";

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
  const writer = store.packWriter(generation, 1, "drawn");
  for (const part of partsOf(device)) {
    writer.begin(part.name);
    for await (const bytes of part.bytes()) writer.write(bytes);
    parts.push(writer.end());
    leaves.set(part.name, await part.leaves());
  }
  writer.finish();
  const modelDigest = digestOf(leaves, job.model.tables);
  const about = { run: "bench", metrics: null, position: null, createdBy: "bench", best: false };
  const { arithmetic } = kernels;
  store.commit({ ...about, generation, cut: 1, parts, modelDigest, arithmetic });
  return { job, directory };
}

/** The Zipf exponent of the ids' popularity: about that of clicks. */
const exponent = 1.05;

/** A sample as a record, with one id a feature, or `ids` ids in features that are sequences. */
export function drawRecord({ model, data }: JobSpec, stream: RandomStream, ids = 1): SampleRecord {
  const record: Record<string, number | readonly number[]> = {};
  const { dense = 0 } = data as { dense?: number };
  for (let i = 0; i < dense; i++) record[`I${i + 1}`] = stream.uniform();
  for (const { name, table, positions } of featuresOf(model)) {
    const zipf = new Zipf(model.tables[table]?.rows ?? 1, exponent);
    const draw = () => zipf.draw(() => stream.uniform());
    record[name] = positions > 1 ? Array.from({ length: ids }, draw) : draw();
  }
  return record;
}

/** A batch of samples with one id a feature. */
export function drawRequest(
  { model }: JobSpec,
  stream: RandomStream,
  samples: number,
): EncodedBatch {
  const features = featuresOf(model);
  const ids = features.flatMap(({ table }) => {
    const zipf = new Zipf(model.tables[table]?.rows ?? 1, exponent);
    return Array.from({ length: samples }, () => zipf.draw(() => stream.uniform()));
  });
  return {
    samples,
    dense: Float32Array.from({ length: samples * model.dense }, () => stream.uniform()),
    lengths: new Int32Array(samples * features.length).fill(1),
    ids: Int32Array.from(ids),
    highs: undefined,
    weights: undefined,
  };
}

/** Microseconds of each answer within `seconds`, after 20 answers that are not counted. */
export async function latencies<T>(
  requests: readonly T[],
  seconds: number,
  answer: (request: T) => unknown,
): Promise<number[]> {
  const times: number[] = [];
  const endMs = performance.now() + 1000 * seconds;
  for (let i = 0; performance.now() < endMs || times.length < 20; i++) {
    const request = requests[i % requests.length] as T;
    const beginMs = performance.now();
    await answer(request);
    if (i >= 20) times.push(1000 * (performance.now() - beginMs));
  }
  return times;
}

/** Median, 99th percentile and rate a second of latencies in microseconds. */
export function figuresOf(times: readonly number[]) {
  const at = quantileOf(times);
  const sum = times.reduce((total, time) => total + time, 0);
  return { p50: at(0.5), p99: at(0.99), rate: (1e6 * times.length) / sum };
}
