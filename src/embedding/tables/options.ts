// What a job says about embedding tables and their optimizers, and what of it is checked.

import { z } from "zod";
import { visibleName } from "../../data/options.ts";
import { rowsMax } from "../../kernels/contract/kernels.ts";
import { schemes, tiers } from "../../planner/shards.ts";
import { dynamicOptions } from "./dynamic-options.ts";

/** One table: all rows of one categorical feature. */
export const tableOptions = z.strictObject({
  /** Name of the feature, and of the column that it comes from. */
  name: visibleName,
  rows: z.int().min(1).max(rowsMax),
  /** Columns of a row. All tables of a model agree. */
  dim: z.int().min(1).max(4096),
  /**
   * What becomes of an id outside 0..rows-1. `reject`: the run ends and names it; `clamp`: the
   * nearest row; `hash`: row mix32(id) mod rows, or mix64 (Murmur3's finalizers, of 32 and 64
   * bits). The last two are counted.
   */
  ids: z.enum(["reject", "clamp", "hash"]).default("reject"),
  /**
   * Of the ids that the data has for the table. With 64, any signed number of 64 bits is taken
   * from the data as it is, and `ids` says what becomes of it; with 32, an id is a row already.
   */
  idBits: z.literal([32, 64]).default(32),
  /**
   * Any id, of 64 bits, gets a row of its own, as far as there are rows; `rows` is their budget.
   * Ids without one count for nothing in their bags. Left out: an id is a row, or as `ids` says.
   */
  dynamic: dynamicOptions.optional(),
  /** How the rows of a bag become one vector. */
  pooling: z.enum(["sum", "mean"]).default("sum"),
  /**
   * How devices share the table out; it changes speed, and no bit. A plan (`--plan`) overrides it.
   * `data-parallel`: a copy on every device, for small tables. Rows are cut between row blocks,
   * columns every 32.
   */
  sharding: z.enum(schemes).default("table-wise"),
  /**
   * Where rows rest: `memory`, all in device memory; `cached`, in the tiers below it (`tiers`),
   * from which those come up that a batch needs. It changes speed, and no bit. A plan overrides it.
   */
  tier: z.enum(tiers).default("memory"),
  /**
   * What becomes of a cached table's rows below memory when the run ends or pauses: `spill`, they
   * go; `durable`, they stay in `tiers.directory`, where the run that goes on from that checkpoint
   * finds them instead of reading them back from it. It changes speed, and no bit.
   */
  keep: z.enum(["spill", "durable"]).default("spill"),
  /**
   * A fixed part of the arithmetic: a pooled vector is a tree over blocks of rows. As many parts as
   * the table's rows can be cut into.
   */
  rowBlocks: z.literal([1, 2, 4, 8, 16, 32, 64]).default(1),
  /**
   * Whether a device asks for each row once, however many of its samples look it up, and pools at
   * home; it changes speed, and no bit. It pays where those rows are fewer than its samples.
   */
  dedup: z.boolean().default(false),
  /**
   * 1: a step reads rows before the update of the step before, so that vectors travel while that
   * one computes; a part of the arithmetic, and only in `mode: "bounded"`. The first step after a
   * cut or a pause reads them as they are.
   */
  staleness: z.literal([0, 1]).default(0),
  /** Weight of the penalty l2/2 * |w|^2 on rows. */
  l2: z.number().min(0).default(0),
  /** Which rows the penalty pulls on: those of the batch, or (data-parallel only) all. */
  l2Scope: z.enum(["touched", "table"]).default("touched"),
  /**
   * How weights rest, in memory and in checkpoints. Arithmetic is float32; the fewer bits are
   * reached by stochastic rounding, in the update only. int8 has a power of two for 32 columns.
   */
  precision: z.enum(["float32", "float16", "bfloat16", "int8"]).default("float32"),
  /** Rows are born uniform in ±initScale. 0 means 1/sqrt(rows). */
  initScale: z.number().min(0).default(0),
});

export type TableOptions = z.input<typeof tableOptions>;
export type TableSpec = z.output<typeof tableOptions>;

const rate = z.number().positive();
const beta = z.number().min(0).max(0.999999);

const adagradNumbers = {
  learningRate: rate.default(0.01),
  epsilon: rate.default(1e-8),
  initialAccumulator: z.number().min(0).default(0),
};

/** What Adam and its kin are told, on rows and on dense parameters. */
export const adamOptions = {
  learningRate: rate.default(0.001),
  beta1: beta.default(0.9),
  beta2: beta.default(0.999),
  epsilon: rate.default(1e-8),
  /** Decoupled (AdamW); in LAMB a part of its direction. */
  weightDecay: z.number().min(0).default(0),
};

/** How rows take their gradients. Exact: a row's gradients are summed, then it is updated once. */
export const sparseOptimizerOptions = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("sgd"), learningRate: rate.default(0.01) }),
  z.strictObject({ kind: z.literal("adagrad"), ...adagradNumbers }),
  z.strictObject({
    kind: z.literal("rowWiseAdagrad"),
    ...adagradNumbers,
    weightDecay: z.number().min(0).default(0),
    /** `l2`: the decay is a part of the gradient; `decoupled`: rows shrink beside it. */
    weightDecayMode: z.enum(["l2", "decoupled"]).default("l2"),
  }),
  z.strictObject({ kind: z.literal("adam"), ...adamOptions }),
  z.strictObject({ kind: z.literal("partialRowWiseAdam"), ...adamOptions }),
  z.strictObject({ kind: z.literal("lamb"), ...adamOptions }),
  z.strictObject({ kind: z.literal("partialRowWiseLamb"), ...adamOptions }),
  z.strictObject({
    kind: z.literal("ftrl"),
    learningRate: rate.default(0.05),
    beta: z.number().min(0).default(1),
    /** Weights whose sum of gradients stays within it are 0. */
    l1: z.number().min(0).default(0),
    l2: z.number().min(0).default(0),
  }),
]);

export type SparseOptimizerOptions = z.input<typeof sparseOptimizerOptions>;
export type SparseOptimizerSpec = z.output<typeof sparseOptimizerOptions>;

/** Adam's numbers, as they were checked. */
export type AdamSpec = z.output<z.ZodObject<typeof adamOptions>>;
