// The exported model in ONNX Runtime, as WebAssembly on one thread: by itself, and as the engine of
// our server, behind the same HTTP, the same encoder and the same queue.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import { createRecordEncoder } from "../../../src/data/records.ts";
import { labelsOf } from "../../../src/data/targets.ts";
import { featuresOf, shapesOf } from "../../../src/model/features.ts";
import { openCheckpoint } from "../../../storage/checkpoints/open-checkpoint.ts";
import { exportModel } from "../../formats/exports/export-model.ts";
import type { ScoringEngine } from "../server/models/engine.ts";

/** Opens the model of a checkpoint directory in ONNX Runtime, as WebAssembly on one thread. */
export async function openOnnx(directory: string) {
  const { env, InferenceSession, Tensor } = await import("onnxruntime-web");
  env.wasm.numThreads = 1;
  const { job, manifest } = openCheckpoint(directory);
  const home = mkdtempSync(join(tmpdir(), "osiris-onnx-"));
  const path = join(home, "model.onnx");
  await exportModel(directory, path);
  const session = await InferenceSession.create(readFileSync(path), {
    executionProviders: ["wasm"],
  });
  rmSync(home, { recursive: true });
  const features = featuresOf(job.model);
  return {
    ...{ job, manifest, session },
    feedsOf({ samples, dense, lengths, ids }: EncodedBatch) {
      const feeds: Record<string, InstanceType<typeof Tensor>> = {};
      feeds.dense = new Tensor("float32", dense, [samples, job.model.dense]);
      let first = 0;
      for (const [i, { name }] of features.entries()) {
        const featureLengths = lengths.subarray(i * samples, (i + 1) * samples);
        const end = first + featureLengths.reduce((sum, length) => sum + length, 0);
        const rows = BigInt64Array.from(ids.subarray(first, end), BigInt);
        feeds[`${name}.rows`] = new Tensor("int64", rows, [rows.length]);
        feeds[`${name}.lengths`] = new Tensor("int64", BigInt64Array.from(featureLengths, BigInt), [
          samples,
        ]);
        first = end;
      }
      return feeds;
    },
  };
}

/** Opens the same as an engine of our server, without rankings and deltas. */
export async function openOnnxEngine(directory: string): Promise<ScoringEngine> {
  const { job, manifest, session, feedsOf } = await openOnnx(directory);
  const version = { digest: `sha256:${manifest.modelDigest}`, step: manifest.cut };
  const encoder = createRecordEncoder(job.data, shapesOf(job.model), manifest.means);
  const predictBatch = async (batch: EncodedBatch) => {
    const outputs = await session.run(feedsOf(batch));
    return { scores: outputs.predictions?.data as Float32Array, version };
  };
  const unsupported = () => Promise.reject(new Error("ONNX Runtime only predicts here"));
  return {
    ...{ job, tasks: labelsOf(job.data), version, predictBatch },
    predict: (records) => predictBatch(encoder.encode(records)),
    rank: unsupported,
    applyDelta: unsupported,
    close: () => session.release(),
  };
}
