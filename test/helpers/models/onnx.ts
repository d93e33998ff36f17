// Runs exported models in ONNX Runtime, as WebAssembly in this process.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { env, InferenceSession, Tensor } from "onnxruntime-web";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { featuresOf } from "../../../src/model/features.ts";
import type { RandomStream } from "../../../src/ports/random.ts";
import { drawnIds } from "../stores/drawn-model.ts";

env.wasm.numThreads = 1; // One thread: a fixed order of additions.

/** Runs a batch; returns the outputs, and the names of inputs and outputs. */
export function runOnnx(path: string, job: JobSpec, batch: EncodedBatch, dataFile?: string) {
  return runFed(path, feedsOf(job, batch), dataFile);
}

/** Runs inputs in the form of the test vectors in the file beside a model. */
export function runInputs(
  path: string,
  inputs: Readonly<Record<string, readonly unknown[]>>,
  dataFile?: string,
) {
  const fed = Object.entries(inputs).map(([name, values]): [string, Tensor] => {
    if (name === "dense") {
      const width = (values[0] as readonly number[]).length;
      const flat = Float32Array.from((values as readonly (readonly number[])[]).flat());
      return [name, new Tensor("float32", flat, [values.length, width])];
    }
    if (name.endsWith(".weights")) {
      const weights = Float32Array.from(values as readonly number[]);
      return [name, new Tensor("float32", weights, [weights.length])];
    }
    const whole = BigInt64Array.from(values as readonly (string | number)[], BigInt);
    return [name, new Tensor("int64", whole, [whole.length])];
  });
  return runFed(path, Object.fromEntries(fed), dataFile);
}

async function runFed(path: string, fed: Record<string, Tensor>, dataFile: string | undefined) {
  const externalData =
    dataFile === undefined
      ? {}
      : { externalData: [{ path: basename(dataFile), data: readFileSync(dataFile) }] };
  const session = await InferenceSession.create(readFileSync(path), {
    executionProviders: ["wasm"],
    ...externalData,
  });
  try {
    const outputs = await session.run(fed);
    const valuesOf = (name: string) => outputs[name]?.data as Float32Array;
    return {
      ...{ inputs: session.inputNames, outputs: session.outputNames },
      ...{ logits: valuesOf("logits"), predictions: valuesOf("predictions") },
      calibrated: outputs.calibrated?.data as Float32Array | undefined,
    };
  } finally {
    await session.release();
  }
}

/** Converts a batch to the inputs of a model. */
function feedsOf({ model }: JobSpec, batch: EncodedBatch): Record<string, Tensor> {
  const { samples, dense, lengths, ids, highs, weights } = batch;
  const fed: Record<string, Tensor> = {};
  if (model.dense > 0) fed.dense = new Tensor("float32", dense, [samples, model.dense]);
  let first = 0;
  for (const [i, { name, table }] of featuresOf(model).entries()) {
    const own = lengths.subarray(i * samples, (i + 1) * samples);
    const end = first + own.reduce((sum, length) => sum + length, 0);
    const isDynamic = model.tables[table]?.dynamic !== undefined;
    const rows = BigInt64Array.from({ length: end - first }, (_, at) => {
      const low = BigInt(ids[first + at] ?? 0);
      return isDynamic ? (BigInt(highs?.[first + at] ?? 0) << 32n) | BigInt.asUintN(32, low) : low;
    });
    fed[`${name}.${isDynamic ? "ids" : "rows"}`] = new Tensor("int64", rows, [rows.length]);
    fed[`${name}.lengths`] = new Tensor("int64", BigInt64Array.from(own, BigInt), [samples]);
    if (weights !== undefined) {
      fed[`${name}.weights`] = new Tensor("float32", weights.slice(first, end), [rows.length]);
    }
    first = end;
  }
  return fed;
}

/** Random samples with bags of up to `idsMax` ids; every other dynamic id has no row. */
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
    const { rows = 1, dynamic } = model.tables[table] ?? {};
    const known = dynamic && drawnIds(model, table);
    return Array.from({ length: count }, () => {
      const drawn = stream.below(rows);
      return known === undefined ? BigInt(drawn) : (known[drawn] ?? BigInt(drawn));
    });
  });
  const isWide = model.tables.some(({ idBits }) => idBits === 64);
  return {
    samples,
    dense: Float32Array.from({ length: samples * model.dense }, () => stream.normal()),
    lengths,
    ids: Int32Array.from(ids, (id) => Number(BigInt.asIntN(32, id))),
    highs: isWide ? Int32Array.from(ids, (id) => Number(id >> 32n)) : undefined,
    weights: isWeighted ? Float32Array.from(ids, () => stream.normal()) : undefined,
  };
}
