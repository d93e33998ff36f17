// Jobs on which plans by learned costs are compared with plans by formulas. No cost network is
// trained on them: their sets of tables are drawn from other random numbers, and are larger.

import { RandomStream } from "../../../internal.ts";

/** The size of a table, and the distribution of its ids. */
export interface HeldOutTable {
  readonly rows: number;
  readonly dim: number;
  readonly idsMean: number;
  readonly zipf: number;
  readonly rowBlocks: number;
}

/** Tables of a set for two devices; the number grows in proportion with the devices. */
const tablesOf = { min: 10, max: 28 };
const dims = [4, 8, 16, 32, 64, 128] as const;
const rowsMost = 1e6;
/** Most elements of a table, as the trainings of all plans of a set are in memory at once. */
const elementsMost = 4e6;
/** Most ids of a sample; their number is lognormal with median e. */
const idsMost = 64;

/** Set number `index` of tables. */
export function heldOutTables(seed: number, index: number, devices: number): HeldOutTable[] {
  const random = new RandomStream(seed, 100 + index);
  const drawn = tablesOf.min + random.below(tablesOf.max - tablesOf.min + 1);
  const count = Math.round((drawn * devices) / 2);
  return Array.from({ length: count }, () => {
    const dim = dims[random.below(dims.length)] ?? 32;
    const rows = 100 * (rowsMost / 100) ** random.uniform();
    return {
      dim,
      rows: Math.floor(Math.min(rows, elementsMost / dim)),
      idsMean: Math.min(idsMost, Math.exp(1 + 1.2 * random.normal())),
      zipf: 1.4 * random.uniform(),
      rowBlocks: 1,
    };
  });
}

/** Batches of the data, which all trainings of a set repeat. */
const batches = 8;
const dense = 4;

/** A job of these tables with a small dense part; `home` keeps its data. */
export function heldOutJob(tables: readonly HeldOutTable[], batchSize: number, home: string) {
  const perFeature = tables.map(({ idsMean, zipf }, i) => {
    return [`T${i}`, { zipf, idsPerBag: { mean: Math.max(0.01, idsMean), spread: 0.3 } }] as const;
  });
  return {
    model: {
      ...{ kind: "dlrm", bottom: [16], top: [16, 1], dense, interaction: "cat" },
      tables: tables.map(({ rows, dim, rowBlocks }, i) => ({
        name: `T${i}`,
        rows,
        dim,
        rowBlocks,
      })),
    },
    data: {
      ...{ kind: "synthetic", samples: batches * batchSize, dense, batchSize, cache: home },
      ...{ perFeature: Object.fromEntries(perFeature), epochs: 100_000 },
    },
    optimizer: { sparse: { kind: "rowWiseAdagrad" }, dense: { kind: "sgd" } },
    checkpoint: { directory: `${home}/none` },
  } as const;
}
