// Options of embedding tables and their optimizers, and their checks.

import { z } from "zod";
import { visibleName } from "../../data/column-name-options.ts";
import { rowsMax } from "../../kernels/contract/kernels.ts";
import { schemes, tiers } from "../../planner/shards.ts";
import { dynamicOptions } from "./dynamic-options.ts";
import { scheduleOptions } from "./schedule-options.ts";

const rowsMaxSentence =
  `at most ${rowsMax}, the most that a row number of 31 bits counts: hash ids into fewer rows ` +
  "(`ids`), give ids rows of their own under a budget (`dynamic`), or split the column over several " +
  "tables";

/** One table: the rows of one categorical feature, or of several (`model.features`). */
export const tableOptions = z.strictObject({
  /**
   * Name of the table; without `model.features`, of its feature and of the feature's column, too.
   */
  name: visibleName,
  rows: z
    .int()
    .min(1)
    .refine((rows) => rows <= rowsMax, { error: rowsMaxSentence })
    .meta({ maximum: rowsMax }),
  /** Columns of a row. */
  dim: z.int().min(1).max(4096),
  /**
   * The policy for an id outside 0..rows-1. `reject`: the run ends with an error that names it;
   * `clamp`: the nearest row; `hash`: row mix32(id) mod rows, or mix64 (Murmur3's finalizers, of 32
   * and 64 bits). Clamped and hashed ids are counted.
   */
  ids: z.enum(["reject", "clamp", "hash"]).default("reject"),
  /**
   * Bits of the data's ids for the table. With 64, any signed 64-bit number is taken from the data
   * unchanged, and `ids` is the policy for it; with 32, an id is a row, or lies beyond the rows.
   */
  idBits: z.literal([32, 64]).default(32),
  /**
   * Any 64-bit id gets a row of its own, while there are free rows; `rows` is their budget. Ids
   * without a row add nothing to their bags. Left out: an id is a row, or follows `ids`.
   */
  dynamic: dynamicOptions.optional(),
  /** How the rows of a bag become one vector, unless the feature says. */
  pooling: z.enum(["sum", "mean"]).default("sum"),
  /**
   * How devices share the table. It changes speed, and no bit. A plan (`--plan`) overrides it.
   * `auto`: as the job's `sharding` says, which plans it, or leaves it whole on one device.
   * `data-parallel`: a copy on every device, for small tables. Rows are cut between row blocks,
   * columns every 32.
   */
  sharding: z.enum(["auto", ...schemes]).default("auto"),
  /**
   * Where rows rest: `memory`: all in device memory; `cached`: in the backing store (`tiers`), from
   * which a batch's rows are fetched. It changes speed, and no bit. A plan overrides it.
   */
  tier: z.enum(tiers).default("memory"),
  /**
   * What happens to a cached table's rows in the backing store when the run ends or pauses.
   * `spill`: they are deleted; `durable`: they stay in `tiers.directory`, and a run that resumes
   * from that checkpoint uses them instead of reading the rows from it. It changes speed, and no
   * bit.
   */
  keep: z.enum(["spill", "durable"]).default("spill"),
  /**
   * A fixed part of the arithmetic: a pooled vector is a tree over blocks of rows. The table's rows
   * can be cut into as many parts.
   */
  rowBlocks: z.literal([1, 2, 4, 8, 16, 32, 64]).default(1),
  /**
   * Whether a device requests each row once, however many of its samples look it up, and pools
   * locally. It changes speed, and no bit. It pays if a device's distinct rows are fewer than its
   * samples.
   */
  dedup: z.boolean().default(false),
  /**
   * 1: a step reads rows before the update of the previous step, so that vectors travel while that
   * step computes. A part of the arithmetic, and only in `mode: "bounded"`. The first step after a
   * cut or a pause reads current rows.
   */
  staleness: z.literal([0, 1]).default(0),
  /** Weight of the penalty l2/2 * |w|^2 on rows. */
  l2: z.number().min(0).default(0),
  /**
   * Rows that the penalty applies to. `touched`: rows of the batch; `table`: all rows, by a pass
   * over them (data-parallel only); `decayed`: all rows, in closed form (row-decay.ts), apart from
   * the gradients.
   */
  l2Scope: z.enum(["touched", "table", "decayed"]).default("touched"),
  /**
   * The stored precision of weights, in memory and in checkpoints. Arithmetic is float32; the
   * update alone rounds to fewer bits, stochastically. int8 has a power-of-two scale per 32
   * columns.
   */
  precision: z.enum(["float32", "float16", "bfloat16", "int8"]).default("float32"),
  /** Rows are initialised uniformly in ±initScale. 0 means 1/sqrt(rows). */
  initScale: z.number().min(0).default(0),
});

export type TableOptions = z.input<typeof tableOptions>;
export type TableSpec = z.output<typeof tableOptions>;

const rate = z.number().positive();
const beta = z.number().min(0).max(0.999999);

/** How the learning rate changes over the steps. Left out: it does not. */
export const schedule = scheduleOptions.optional();

const adagradNumbers = {
  learningRate: rate.default(0.01),
  epsilon: rate.default(1e-8),
  initialAccumulator: z.number().min(0).default(0),
  schedule,
};

/** Options of Adam and its variants, for rows and for dense parameters. */
export const adamOptions = {
  learningRate: rate.default(0.001),
  beta1: beta.default(0.9),
  beta2: beta.default(0.999),
  epsilon: rate.default(1e-8),
  /** Decoupled (AdamW); in LAMB, a part of its direction. */
  weightDecay: z.number().min(0).default(0),
  schedule,
};

/**
 * A limit of each element of a row's gradient, summed over the batch, before the row takes it. A
 * norm over all rows would have to wait for all of them (docs/jobs.md). Left out: none.
 */
const clip = z.strictObject({ value: rate }).optional();

/**
 * An exponential moving average of weights, which evaluations and predictions take instead of the
 * weights (Polyak and Juditsky 1992). Left out: none.
 */
export const emaOptions = z
  .strictObject({
    /** Share of the average that a step keeps. The first step begins it. */
    decay: z.number().gt(0).lt(1).default(0.999),
  })
  .optional();

/** What every optimizer of rows may do besides. */
const beside = { clip, ema: emaOptions };

/**
 * How gradients are applied to rows. Exact: a row's gradients are summed, then it is updated once.
 */
export const sparseOptimizerOptions = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("sgd"), learningRate: rate.default(0.01), schedule, ...beside }),
  z.strictObject({ kind: z.literal("adagrad"), ...adagradNumbers, ...beside }),
  z.strictObject({
    kind: z.literal("rowWiseAdagrad"),
    ...adagradNumbers,
    weightDecay: z.number().min(0).default(0),
    /** `l2`: the decay is a part of the gradient; `decoupled`: rows shrink separately. */
    weightDecayMode: z.enum(["l2", "decoupled"]).default("l2"),
    ...beside,
  }),
  z.strictObject({ kind: z.literal("adam"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("partialRowWiseAdam"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("lamb"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("partialRowWiseLamb"), ...adamOptions, ...beside }),
  /** Its rate follows from the gradients of each weight: there is no schedule beside it. */
  z.strictObject({
    kind: z.literal("ftrl"),
    learningRate: rate.default(0.05),
    beta: z.number().min(0).default(1),
    /** A weight is 0 while its sum of gradients is within this bound. */
    l1: z.number().min(0).default(0),
    l2: z.number().min(0).default(0),
    ...beside,
  }),
]);

export type SparseOptimizerOptions = z.input<typeof sparseOptimizerOptions>;
export type SparseOptimizerSpec = z.output<typeof sparseOptimizerOptions>;

/** Adam's numbers, after their checks. */
export type AdamSpec = z.output<z.ZodObject<typeof adamOptions>>;
