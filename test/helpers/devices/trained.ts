// Small trained models for tests: a few real steps in one thread, committed as in a run.

import type { Means } from "../../../src/data/cache/cache-format.ts";
import { openCache } from "../../../src/data/cache/cache-reader.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import type { TableShape } from "../../../src/data/options.ts";
import type { Targets } from "../../../src/data/targets.ts";
import { type JobOptions, type JobSpec, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import type { Plan } from "../../../src/planner/shards.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { writePart } from "../stores/checkpoints.ts";
import { type LocalDevices, startLocalDevices, type WholeBatch } from "./local-devices.ts";
import { bytesOfParts } from "./parts.ts";

/** A job trained for some steps on its own data, in file order. */
export interface Trained {
  readonly job: JobSpec;
  readonly devices: LocalDevices;
  readonly samples: WholeBatch;
  /**
   * Trains one more step on all samples, and commits a checkpoint with the given `best` and
   * `arithmetic`.
   */
  train(at: { cut: number; best?: boolean; arithmetic?: string }): Promise<Manifest>;
}

/**
 * Opens the job's data and its checkpoint directory, without training yet. `plan`: of the
 * `devices`; if left out, each table's `sharding` places it.
 */
export async function startTrained(
  options: JobOptions,
  { devices = 1, plan }: { readonly devices?: number; readonly plan?: Plan } = {},
): Promise<Trained> {
  const job = resolveJob(options);
  const samples = await readAll(job.data, job.model.tables);
  const { model, slices, optimizer, seed } = job;
  const { idsMax, targets, means } = samples;
  const input = { model, slices, idsMax, targets, batchSize: samples.samples, plan };
  const kernels = openKernels("reference");
  const local = startLocalDevices({
    input,
    recipe: { optimizer, seed },
    devices,
    kernels: () => kernels,
  });
  const { directory } = job.checkpoint;
  const store = openStore({
    directory,
    jobIdentity: jobIdentity(job),
    jobText: JSON.stringify(job),
  });
  const { generation } = store.beginGeneration();
  return {
    job,
    devices: local,
    samples,
    async train({ cut, best = false, arithmetic = kernels.arithmetic }) {
      await local.train(samples, cut - 1);
      const parts = [...(await bytesOfParts(local.states))].map(([name, bytes]) =>
        writePart(store, { generation, cut, name }, bytes),
      );
      const modelDigest = await local.digest();
      const written = { run: "r1", metrics: null, position: null, createdBy: "test" };
      const about = { ...written, ...(means && { means }) };
      return store.commit({ ...about, generation, cut, parts, modelDigest, arithmetic, best });
    },
  };
}

/** All samples of data as one batch, and statistics of all of them. */
export interface WholeData extends WholeBatch {
  readonly idsMax: readonly number[];
  readonly targets: Targets;
  /** The means of dense columns in which missing values are replaced by the mean. */
  readonly means: Means | undefined;
}

/** Reads all samples of a job's data as one batch. */
export async function readAll(
  data: JobSpec["data"],
  tables: readonly TableShape[],
): Promise<WholeData> {
  const { path, means } = await prepareCache(data, tables, realDisk);
  const dataset = openCache(path, realDisk);
  const { samples, idsMax } = dataset;
  const targets = { labels: dataset.targets.labels, hasSampleWeights: false, hasGroups: false };
  const idsPerSample = idsMax.reduce((sum, ids) => sum + ids, 0);
  const batch = {
    dense: new Float32Array(samples * dataset.dense),
    labels: new Float32Array(samples * dataset.targets.labels),
    lengths: new Int32Array(samples * dataset.features),
    ids: new Int32Array(samples * idsPerSample),
    highs: dataset.wide.includes(true) ? new Int32Array(samples * idsPerSample) : undefined,
    weights: dataset.weighted.includes(true) ? new Float32Array(samples * idsPerSample) : undefined,
  };
  const count = dataset.read(
    Float64Array.from({ length: samples }, (_, i) => i),
    batch,
  );
  dataset.close();
  const [ids, highs] = [batch.ids.subarray(0, count), batch.highs?.subarray(0, count)];
  const weights = batch.weights?.subarray(0, count);
  return { samples, idsMax, targets, means, ...batch, ids, highs, weights };
}
