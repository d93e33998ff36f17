// Runs exported models in ONNX Runtime, as WebAssembly in this process.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { env, InferenceSession, Tensor } from "onnxruntime-web";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { featuresOf } from "../../../src/model/features.ts";
import type { RandomStream } from "../../../src/ports/random.ts";

env.wasm.numThreads = 1; // One order of additions.

/** What the runtime makes of a batch, and the names that the model has. */
export async function runOnnx(path: string, job: JobSpec, batch: EncodedBatch, dataFile?: string) {
  const externalData =
    dataFile === undefined
      ? {}
      : { externalData: [{ path: basename(dataFile), data: readFileSync(dataFile) }] };
  const session = await InferenceSession.create(readFileSync(path), {
    executionProviders: ["wasm"],
    ...externalData,
  });
  try {
    const fed = feedsOf(job, batch);
    const outputs = await session.run(fed);
    const valuesOf = (name: string) => outputs[name]?.data as Float32Array;
    return {
      ...{ inputs: session.inputNames, outputs: session.outputNames },
      ...{ logits: valuesOf("logits"), predictions: valuesOf("predictions") },
    };
  } finally {
    await session.release();
  }
}

/** A batch as the inputs of a model. */
function feedsOf({ model }: JobSpec, batch: EncodedBatch): Record<string, Tensor> {
  const { samples, dense, lengths, ids, weights } = batch;
  const fed: Record<string, Tensor> = {};
  if (model.dense > 0) fed.dense = new Tensor("float32", dense, [samples, model.dense]);
  let first = 0;
  for (const [i, { name }] of featuresOf(model).entries()) {
    const own = lengths.subarray(i * samples, (i + 1) * samples);
    const end = first + own.reduce((sum, length) => sum + length, 0);
    const rows = BigInt64Array.from(ids.subarray(first, end), BigInt);
    fed[`${name}.rows`] = new Tensor("int64", rows, [rows.length]);
    fed[`${name}.lengths`] = new Tensor("int64", BigInt64Array.from(own, BigInt), [samples]);
    if (weights !== undefined) {
      fed[`${name}.weights`] = new Tensor("float32", weights.slice(first, end), [rows.length]);
    }
    first = end;
  }
  return fed;
}

/** Samples with bags of none to `idsMax` ids. */
export function drawBatch(
  { model }: JobSpec,
  stream: RandomStream,
  options: { readonly samples: number; readonly idsMax: number; readonly isWeighted?: boolean },
): EncodedBatch {
  const { samples, idsMax, isWeighted = false } = options;
  const features = featuresOf(model);
  const lengths = Int32Array.from({ length: samples * features.length }, () =>
    stream.below(idsMax + 1),
  );
  const ids = features.flatMap(({ table }, i) => {
    const own = lengths.subarray(i * samples, (i + 1) * samples);
    const count = own.reduce((sum, length) => sum + length, 0);
    return Array.from({ length: count }, () => stream.below(model.tables[table]?.rows ?? 1));
  });
  return {
    samples,
    dense: Float32Array.from({ length: samples * model.dense }, () => stream.normal()),
    lengths,
    ids: Int32Array.from(ids),
    highs: undefined,
    weights: isWeighted ? Float32Array.from(ids, () => stream.normal()) : undefined,
  };
}
