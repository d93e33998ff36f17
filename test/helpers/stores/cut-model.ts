// A model that is trained for a few real steps on random batches and checkpointed like a run: full,
// or as increments. For tests that compare or combine two checkpoints of one run.

import { weightedOf } from "../../../src/data/text/match-features.ts";
import { type JobOptions, type JobSpec, jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { createCutter } from "../../../src/training/checkpoint/parts.ts";
import type { BasePart, Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { startLocalDevices } from "../devices/local-devices.ts";
import { bytesOf } from "../devices/parts.ts";
import { drawBatch } from "../models/onnx.ts";
import { writePart } from "./checkpoints.ts";

const samples = 12;

/** A model in training, and its checkpoint directory. */
export interface CutModel {
  readonly job: JobSpec;
  readonly directory: string;
  /** Trains `steps` more and commits a checkpoint; a full one if `isBaseline`. */
  cut(steps: number, isBaseline?: boolean): Promise<Manifest>;
}

/** Starts the model before its first step. */
export function startCutModel(options: JobOptions): CutModel {
  const job = resolveJob(options);
  const { model, slices, optimizer, seed, data, checkpoint } = job;
  const { directory, differential } = checkpoint;
  const kernels = openKernels("auto");
  const shapes = shapesOf(model);
  const [idsMax, weighted] = [shapes.map(() => 3), weightedOf(data, shapes)];
  const input = { model, slices, idsMax, weighted, batchSize: samples };
  const local = startLocalDevices({
    ...{ input, recipe: { optimizer, seed }, devices: 1, hasIncrements: true },
    kernels: () => kernels,
  });
  const store = openStore({
    ...{ directory, jobIdentity: jobIdentity(job), jobText: JSON.stringify(job) },
  });
  const { generation } = store.beginGeneration();
  const cutters = local.states.map((state) => createCutter(state, { differential, restored: [] }));
  const stream = new RandomStream(seed, 5, 5);
  let step = 0;
  let last: Manifest | undefined;
  return {
    job,
    directory,
    async cut(steps, isBaseline = last === undefined || differential === "none") {
      for (const end = step + steps; step < end; step++) {
        const drawn = drawBatch(job, stream, { samples, idsMax: 3 });
        const labels = Float32Array.from({ length: samples }, () => stream.below(2));
        const highs = new Int32Array(drawn.ids.length).fill(step >> 2);
        await local.train({ ...drawn, labels, highs }, step);
      }
      const [parts, leaves] = [[] as Manifest["parts"][number][], new Map<string, string[]>()];
      for (const part of cutters.flatMap((cutter) => cutter(isBaseline))) {
        const at = { generation, cut: step, name: part.name };
        const own = writePart(store, at, await bytesOf(part.bytes()));
        const base = part.isWhole ? [] : baseOf(last, part.name, differential);
        parts.push({ ...own, base });
        leaves.set(part.name, await part.leaves());
      }
      const modelDigest = digestOf(leaves, model.tables);
      const about = { run: "r1", metrics: null, position: null, createdBy: "test", best: false };
      const { arithmetic } = kernels;
      last = store.commit({ ...about, generation, cut: step, parts, modelDigest, arithmetic });
      return last;
    },
  };
}

function baseOf(last: Manifest | undefined, name: string, differential: string): BasePart[] {
  const part = last?.parts.find((one) => one.name === name);
  if (last === undefined || part === undefined) throw new Error(`${name} has no base`);
  const { cut, generation } = last;
  const { base, file, at, bytes, sha256 } = part;
  const all = [...base, { cut, generation, file, at, bytes, sha256 }];
  return differential === "consecutive" ? all : all.slice(0, 1);
}
