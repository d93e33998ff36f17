// Random jobs. Jobs of one seed are timed to find the costs of a machine (task-probes.ts); jobs of
// other seeds validate the predictions (bench/validation.bench.ts), so that no job is compared with
// costs that were fitted to it. A job depends on its seed and number alone.

import {
  type JobOptions,
  type ModelOptions,
  RandomStream,
  resolveJob,
  workloadOf,
} from "../../../internal.ts";

export interface RandomJob {
  /** Devices that train it. */
  readonly devices: number;
  /** The drawn sizes in words. */
  readonly text: string;
  readonly options: Pick<JobOptions, "model" | "data" | "exchange" | "pipeline" | "tiers">;
}

export interface JobDraw {
  readonly seed: number;
  /** The number of the job. */
  readonly index: number;
  /** Numbers of devices; one of them is drawn. */
  readonly devices: readonly number[];
  /** Number of batches that a job with cached tables repeats; 0: no table is cached. */
  readonly cachedBatches: number;
  /** Most ids of a batch; and multiplications and additions of its dense layers. */
  readonly idsMax: number;
  readonly flopMax: number;
}

/** Separates the random stream of these jobs from other streams of a seed. */
const purpose = 0x7a11;
const [dense, batchesOfJob, idsOfRow] = [13, 8, 4];
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

const models = ["dlrm", "cat", "dcnV2", "wukong", "maskNet"] as const;
const formats = ["float32", "float16", "bfloat16", "int8"] as const;

export function randomJob(draw: JobDraw): RandomJob {
  for (let attempt = 0; ; attempt++) {
    const job = drawn(new RandomStream(draw.seed, purpose + attempt, draw.index), draw);
    const { batchSize, tables, denseFlop } = workloadOf(resolveJob(job.options));
    const ids = batchSize * tables.reduce((sum, { poolingFactor }) => sum + poolingFactor, 0);
    if (ids <= draw.idsMax && batchSize * denseFlop <= draw.flopMax) return job;
  }
}

function drawn(random: RandomStream, { devices: counts, cachedBatches }: JobDraw): RandomJob {
  const one = <Item>(items: readonly Item[]): Item => {
    const item = items[items.length === 1 ? 0 : random.below(items.length)];
    if (item === undefined) throw new RangeError("Expected something to draw from");
    return item;
  };
  /** Draws a number between two bounds, evenly on a logarithmic scale. */
  const between = ([low, high]: readonly [number, number]) =>
    Math.round(low * (high / low) ** random.uniform());
  const kind = one(kindNames);
  const { tables: count, ids, widths } = kinds[kind];
  const devices = one(counts);
  const batchSize = 2 ** (7 + random.below(6));
  const tables = between(count);
  const dim = one([8, 16, 32, 64, 128]);
  const isCached = cachedBatches > 0 && random.uniform() < 0.2;
  const drawnRows = between([1000, 50_000]);
  const idsPerBag = between(ids);
  const batches = isCached ? cachedBatches : batchesOfJob;
  // The data has so many ids for each cached row that caches cannot hold all rows that it needs.
  const rows = isCached ? Math.round((batches * batchSize * idsPerBag) / idsOfRow) : drawnRows;
  const zipf = one([0.8, 1.05, 1.2]);
  const modelKind = one(models);
  const model = modelOf(modelKind, {
    tables: Array.from({ length: tables }, (_, i) => ({
      ...{ name: `T${i}`, rows, dim },
      ...(isCached && { tier: "cached" as const }),
    })),
    widths: [one(widths), one(widths)],
    dim,
  });
  const forward = devices > 1 ? one(formats) : formats[0];
  const backward = forward === "float32" ? forward : one(["bfloat16" as const, forward]);
  const depth = one([1, 2, 3] as const);
  const deviceBytes = Math.ceil((tables * rows * (4 * dim + 8)) / devices / spilled);
  const options = {
    model,
    data: {
      ...{ kind: "synthetic" as const, dense, batchSize, idsPerBag, zipf, epochs: 1_000_000 },
      samples: batches * batchSize,
    },
    exchange: { forward, backward },
    pipeline: { depth },
    ...(isCached && {
      tiers: { hbmBytes: deviceBytes, ddrBytes: 2 * deviceBytes, ssd: "file" as const },
    }),
  };
  const text =
    `${kind} ${modelKind}, batch ${batchSize}, ${tables} tables of ${rows} × ${dim}, ` +
    `${idsPerBag} ids, ${devices} × depth ${depth}, ${forward}${isCached ? ", cached" : ""}`;
  return { devices, text, options };
}

/** A model of the kind with these widths of layers. */
function modelOf(
  kind: (typeof models)[number],
  of: {
    readonly tables: ModelOptions["tables"];
    readonly widths: readonly [number, number];
    readonly dim: number;
  },
): ModelOptions {
  const { tables, widths, dim } = of;
  const [wide, narrow] = widths;
  const common = { tables, dense };
  const bottom = kind === "maskNet" ? [] : [wide, dim];
  const top = [...widths, 1];
  switch (kind) {
    case "dlrm":
      return { kind: "dlrm", ...common, bottom, top };
    case "cat":
      return { kind: "dlrm", ...common, bottom, top, interaction: "cat" };
    case "dcnV2":
      return { kind: "dcnV2", ...common, bottom, crossLayers: 2, rank: 64, top };
    case "maskNet": {
      const block = { blocks: 2, width: narrow, reduction: 0.25 };
      return { kind: "maskNet", ...common, ...block, top: [narrow, 1] };
    }
    default: {
      const layer = { interacted: 8, compressed: 8, rank: 16, hidden: [wide] };
      return { kind: "wukong", ...common, bottom, layers: [layer, layer], top: [narrow, 1] };
    }
  }
}
