// Draws requests with Zipf-distributed ids, and measures the latencies of answering them in turn.

import { quantileOf } from "../../../bench/row.ts";
import type { EncodedBatch } from "../../../src/data/batch-rows.ts";
import type { SampleRecord } from "../../../src/data/records.ts";
import { Zipf } from "../../../src/data/synthetic/zipf.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { featuresOf } from "../../../src/model/features.ts";
import type { RandomStream } from "../../../src/ports/random.ts";

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
