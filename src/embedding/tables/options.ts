// Options of embedding tables and their optimizers, and their checks.

import { z } from "zod";
import { visibleName } from "../../data/column-name-options.ts";
import { rowsMax } from "../../kernels/contract/kernels.ts";
import { schemes, tiers } from "../../planner/shards.ts";
import { checkOnce } from "../../ports/check-options.ts";
import { dynamicOptions } from "./dynamic-options.ts";
import { scheduleOptions } from "./schedule-options.ts";

const rowsMaxSentence =
  `at most ${rowsMax}, as a row number has 31 bits: hash ids into fewer rows ` +
  "(`ids`), give ids rows of their own under a budget (`dynamic`), or split the column over several " +
  "tables";

/** The numbers of row blocks that a table may have. */
export const rowBlockCounts = [1, 2, 4, 8, 16, 32, 64] as const;

/** One block, until the job chooses (src/job/choose-cuts.ts), as a table does not know its job. */
const autoBlocks = z.literal("auto").transform(() => 1 as const);
const rowBlocksAre = `one of ${rowBlockCounts.join(", ")}, or "auto"`;

/** An embedding table: the rows of one categorical feature, or of several (`model.features`). */
export const tableOptions = z.strictObject({
  name: visibleName.describe(
    "Name of the table. Without `model.features`, also the name of its feature and of the feature's column in the data.",
  ),
  rows: z
    .int()
    .min(1)
    .refine((rows) => rows <= rowsMax, { error: rowsMaxSentence })
    .meta({ maximum: rowsMax })
    .describe(
      "Number of rows, here or in `model.table`. Ids are hashed into the rows, or must be less than this.",
    ),
  dim: z
    .int()
    .min(1)
    .max(4096)
    .describe(
      "Embedding dimension: columns of a row, here or in `model.table`; tables may differ.",
    ),
  ids: z
    .enum(["reject", "clamp", "hash"])
    .default("reject")
    .describe(
      "How integer ids outside the table's rows are handled (hashed text always has a row): `reject`, a line of text with such an id is a bad line, and elsewhere the id ends the run; `clamp`, the nearest row is used; `hash`, the id is hashed into the rows. The report of the run counts clamped and hashed ids.",
    ),
  idBits: z
    .literal([32, 64])
    .default(32)
    .describe(
      "Bits of the table's ids in the data. `64`: ids are any signed 64-bit integers, and `ids` says how they become rows; `32`: an id is a row number, or is outside the rows.",
    ),
  dynamic: dynamicOptions
    .optional()
    .describe(
      "Dynamic ids: any 64-bit id gets a row of its own while one of the `rows` is free. Ids without a row add nothing to their bags. Left out: an id is a row number, or is handled as `ids` says.",
    ),
  pooling: z
    .enum(["sum", "mean"])
    .default("sum")
    .describe("How the rows of a bag are pooled into one vector: `sum` or `mean`."),
  sharding: z
    .enum(["auto", ...schemes])
    .default("auto")
    .describe(
      "How the table is sharded over devices: `auto`, as the job's `sharding` says; `table-wise`, `row-wise`, `column-wise`, `data-parallel` (a copy on every device, for small tables), `table-row-wise`, `table-column-wise` or `grid`. A plan overrides it; changes speed and no bit, if `rowBlocks` is a number.",
    ),
  tier: z
    .enum(tiers)
    .default("memory")
    .describe(
      "Where rows are stored: `memory`, all in device memory; `cached`, in host memory and on disk, behind a cache in device memory that fetches a batch's rows. A plan overrides it; changes speed and no bit.",
    ),
  keep: z
    .enum(["spill", "durable"])
    .default("spill")
    .describe(
      "What happens to a cached table's rows in the backing store when the run ends or pauses. `spill`: they are deleted; `durable`: they stay in `tiers.directory`, and a run that resumes from the last checkpoint uses them instead of reading the rows from the checkpoint. Changes speed and no bit.",
    ),
  rowBlocks: z
    .union([autoBlocks, z.literal(rowBlockCounts)], { error: rowBlocksAre })
    .prefault("auto")
    .describe(
      "Number of row blocks, the fixed parts of the table's rows: a power of two up to 64, and the most shards of `row-wise` sharding; a part of the arithmetic. `auto`: chosen when the job is submitted, 1 for tables below 256 MiB that no `sharding` cuts by rows.",
    ),
  dedup: z
    .boolean()
    .default(false)
    .describe(
      "`true`: a device receives each row at most once per batch, even if several of its samples look it up. Changes no bit, except with an `exchange` in fewer bits: it is then a part of the arithmetic, and not allowed for `data-parallel` tables.",
    ),
  staleness: z
    .literal([0, 1])
    .default(0)
    .describe(
      '`1`: a step reads the table before the previous step has updated it, so that its vectors are exchanged during the previous step; a part of the arithmetic, and only in `mode: "bounded"`.',
    ),
  l2: z.number().min(0).default(0).describe("Factor of the penalty l2/2 · ‖w‖² on rows."),
  l2Scope: z
    .enum(["touched", "table", "decayed"])
    .default("touched")
    .describe(
      "Rows that the penalty applies to at each step: `touched`, the rows of the batch; `table`, all rows, which are all visited (data-parallel tables only); `decayed`, all rows of any table, in closed form, without visiting them.",
    ),
  precision: z
    .enum(["float32", "float16", "bfloat16", "int8"])
    .default("float32")
    .describe(
      "Format of stored rows: `float32`, `float16`, `bfloat16` or `int8` (with one power of two as scale for 32 columns). Updates are computed in float32, and rounded stochastically by the job's seed.",
    ),
  initScale: z
    .number()
    .min(0)
    .default(0)
    .describe("Rows are initialised uniformly between -x and x; 0: x is 1/√rows."),
});

checkOnce(tableOptions);

/** An embedding table as a user writes it, with optional fields. */
export type TableOptions = z.input<typeof tableOptions>;
/** An embedding table after its checks: complete. */
export type TableSpec = z.output<typeof tableOptions>;

const rate = z.number().positive();
const beta = z.number().min(0).max(0.999999);

export const schedule = scheduleOptions
  .optional()
  .describe("Schedule of the learning rate over the steps. Left out: it is constant.");

/** Options of Adagrad and its variant, for rows and for dense parameters. */
export const adagradOptions = {
  learningRate: rate.default(0.01).describe("Learning rate: the factor of an update."),
  epsilon: rate
    .default(1e-8)
    .describe("Added to the denominator of an update, so that it is never 0."),
  initialAccumulator: z
    .number()
    .min(0)
    .default(0)
    .describe("Adagrad: first value of the sums of squared gradients."),
  schedule,
};

/** Options of Adam and its variants, for rows and for dense parameters. */
export const adamOptions = {
  learningRate: rate.default(0.001).describe("Learning rate: the factor of an update."),
  beta1: beta
    .default(0.9)
    .describe("Share of the first moment (mean of gradients) that a step keeps."),
  beta2: beta
    .default(0.999)
    .describe("Share of the second moment (mean of squared gradients) that a step keeps."),
  epsilon: rate
    .default(1e-8)
    .describe("Added to the denominator of an update, so that it is never 0."),
  weightDecay: z
    .number()
    .min(0)
    .default(0)
    .describe("Weight decay: decoupled in Adam (AdamW), added to the update direction in LAMB."),
  schedule,
};

/**
 * Gradient clipping by value: a limit on each element of a row's gradient, summed over the batch,
 * before the update. Clipping by a norm over all rows would have to wait for all of them
 * (docs/jobs.md). Left out: no clipping.
 */
const clip = z
  .strictObject({
    value: rate.describe(
      "With `optimizer.sparse.clip`: each element of a row's gradient is clamped to between -x and x. Left out: gradients are not clipped.",
    ),
  })
  .optional()
  .describe("Gradient clipping of rows. Left out: none.");

/**
 * An exponential moving average of weights, which evaluations and predictions use instead of the
 * weights (Polyak and Juditsky 1992). Left out: no average.
 */
export const emaOptions = z
  .strictObject({
    decay: z
      .number()
      .gt(0)
      .lt(1)
      .default(0.999)
      .describe(
        "Share of the average that a step keeps; the first step sets the average to the weights.",
      ),
  })
  .optional()
  .describe(
    "An exponential moving average of the weights, which evaluations and predictions use instead of the weights. Left out: none.",
  );

/** Options that every sparse optimizer has. */
const beside = { clip, ema: emaOptions };

/**
 * Sparse optimizers, which update rows. Updates are exact: a row's gradients are summed over the
 * batch, then the row is updated once.
 */
export const sparseOptimizerOptions = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("sgd"),
    learningRate: rate.default(0.01).describe("Learning rate: the factor of an update."),
    schedule,
    ...beside,
  }),
  z.strictObject({ kind: z.literal("adagrad"), ...adagradOptions, ...beside }),
  z.strictObject({
    kind: z.literal("rowWiseAdagrad"),
    ...adagradOptions,
    weightDecay: z
      .number()
      .min(0)
      .default(0)
      .describe("Weight decay: factor by which an update shrinks the row."),
    weightDecayMode: z
      .enum(["l2", "decoupled"])
      .default("l2")
      .describe(
        "`rowWiseAdagrad`: `l2`, the decay is added to the gradient; `decoupled`, it is applied to the row apart from the gradient.",
      ),
    ...beside,
  }),
  z.strictObject({ kind: z.literal("adam"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("partialRowWiseAdam"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("lamb"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("partialRowWiseLamb"), ...adamOptions, ...beside }),
  /** The rate of a weight follows from its gradients, so FTRL has no schedule. */
  z.strictObject({
    kind: z.literal("ftrl"),
    learningRate: rate.default(0.05).describe("Learning rate: the factor of an update."),
    beta: z
      .number()
      .min(0)
      .default(1)
      .describe(
        "FTRL: added to √(sum of squared gradients) in the denominator of the learning rate.",
      ),
    l1: z
      .number()
      .min(0)
      .default(0)
      .describe(
        "FTRL: a weight is 0 while the magnitude of its accumulated gradient is at most this.",
      ),
    l2: z.number().min(0).default(0).describe("FTRL: factor of FTRL's own quadratic penalty."),
    ...beside,
  }),
]);

export type SparseOptimizerOptions = z.input<typeof sparseOptimizerOptions>;
export type SparseOptimizerSpec = z.output<typeof sparseOptimizerOptions>;

/** Adam's hyperparameters, validated and complete. */
export type AdamSpec = z.output<z.ZodObject<typeof adamOptions>>;
