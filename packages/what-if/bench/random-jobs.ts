// The random jobs of the validation. A job depends on the seed and its number alone; no figure of a
// measurement reaches the draw. Sizes are limited so that a step takes at most some 100 ms on one
// core: a window of a second then has several steps.

import type { JobOptions } from "../../../internal.ts";
import { resolveJob } from "../../../internal.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { workloadOf } from "../../../src/training/planning/workload.ts";
import { modelOf } from "../tasks/task-probes.ts";

/** Where a job trains: devices of this process, or two machines with a cable of that many Gb/s. */
export type Place = "alone" | "1g" | "10g";

export interface RandomJob {
  readonly name: string;
  readonly place: Place;
  /** Devices: of this process, or on a machine each. */
  readonly devices: number;
  /** The drawn sizes in words, for the row that the bench prints. */
  readonly text: string;
  readonly options: Pick<JobOptions, "model" | "data" | "exchange" | "pipeline" | "tiers">;
}

/** Identifies the draws of these jobs among those of a seed. */
const purpose = 0x7a11;
const [dense, batchesOfJob] = [13, 8];
/** Most ids of a batch, and multiplications and additions of its dense layers. */
const [idsMax, flopMax] = [400_000, 8e9];
/**
 * Bytes of a cached table for each byte of its cache in device memory. The cache in host memory is
 * twice as large as that in device memory.
 */
const spilled = 4;

/** A job's character: tables, ids of a bag, and widths of the layers. */
const kinds = {
  "dense-heavy": { tables: [4, 30], ids: [1, 3], widths: [256, 512, 1024] },
  "lookup-heavy": { tables: [16, 100], ids: [4, 20], widths: [32, 64] },
  mixed: { tables: [8, 60], ids: [1, 10], widths: [64, 128, 256] },
} as const;
const kindNames = Object.keys(kinds) as (keyof typeof kinds)[];

const formats = ["float32", "float16", "bfloat16", "int8"] as const;

/** Job number `index` of a seed. */
export function randomJob(seed: number, index: number, place: Place): RandomJob {
  for (let attempt = 0; ; attempt++) {
    const job = drawn(new RandomStream(seed, purpose + attempt, index), index, place);
    const { batchSize, tables, denseFlop } = workloadOf(resolveJob(job.options));
    const ids = batchSize * tables.reduce((sum, { poolingFactor }) => sum + poolingFactor, 0);
    if (ids <= idsMax && batchSize * denseFlop <= flopMax) return job;
  }
}

function drawn(random: RandomStream, index: number, place: Place): RandomJob {
  const one = <Item>(items: readonly Item[]): Item => {
    const item = items[random.below(items.length)];
    if (item === undefined) throw new RangeError("Expected something to draw from");
    return item;
  };
  /** Between both ends, all orders of magnitude alike. */
  const between = ([low, high]: readonly [number, number]) =>
    Math.round(low * (high / low) ** random.uniform());
  const kind = one(kindNames);
  const { tables: count, ids, widths } = kinds[kind];
  const isAlone = place === "alone";
  const devices = isAlone ? one([1, 2]) : 2;
  const batchSize = 2 ** (7 + random.below(6));
  const tables = between(count);
  const dim = one([8, 16, 32, 64, 128]);
  const isCached = isAlone && random.uniform() < 0.2;
  const rows = isCached ? 100_000 : between([1000, 50_000]);
  const idsPerBag = between(ids);
  const zipf = one([0.8, 1.05, 1.2]);
  const modelKind = one(["dlrm", "cat", "dcnV2", "wukong", "maskNet"] as const);
  const model = modelOf(modelKind, {
    tables: Array.from({ length: tables }, (_, i) => ({
      ...{ name: `T${i}`, rows, dim },
      ...(isCached && { tier: "cached" as const }),
    })),
    widths: [one(widths), one(widths)],
    dim,
    dense,
  });
  const forward = devices > 1 ? one(formats) : formats[0];
  const backward = forward === "float32" ? forward : one(["bfloat16" as const, forward]);
  const depth = one([1, 2, 3] as const);
  const deviceBytes = Math.ceil((tables * rows * (4 * dim + 8)) / devices / spilled);
  const options = {
    model,
    data: {
      ...{ kind: "synthetic" as const, dense, batchSize, idsPerBag, zipf, epochs: 1_000_000 },
      samples: (isCached ? 8 : 1) * batchesOfJob * batchSize,
    },
    exchange: { forward, backward },
    pipeline: { depth },
    ...(isCached && {
      tiers: { hbmBytes: deviceBytes, ddrBytes: 2 * deviceBytes, ssd: "file" as const },
    }),
  };
  const text =
    `${kind} ${modelKind}, batch ${batchSize}, ${tables} tables of ${rows} × ${dim}, ` +
    `${idsPerBag} ids, ${devices} × depth ${depth}, ${forward}${isCached ? ", cached" : ""}` +
    (isAlone ? "" : `, cable ${place}`);
  return { name: `${isAlone ? "alone" : "links"}.${index}`, place, devices, text, options };
}
