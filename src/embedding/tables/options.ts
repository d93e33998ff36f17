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

/** An embedding table: the rows of one categorical feature, or of several (`model.features`). */
export const tableOptions = z.strictObject({
  name: visibleName.describe(
    "Name of the table; without `model.features`, of its feature and of the column that it comes from, too.",
  ),
  rows: z
    .int()
    .min(1)
    .refine((rows) => rows <= rowsMax, { error: rowsMaxSentence })
    .meta({ maximum: rowsMax })
    .describe("Rows, here or in `model.table`; ids are hashed into them, or must lie below."),
  dim: z
    .int()
    .min(1)
    .max(4096)
    .describe("Columns of a row, here or in `model.table`; tables may differ."),
  ids: z
    .enum(["reject", "clamp", "hash"])
    .default("reject")
    .describe(
      "For integer ids that the table does not have (hashed text always has a row): `reject` makes a line of text a bad line, and ends a run that meets such an id later, `clamp` takes the nearest row, `hash` hashes the id into the rows; the report of the run counts clamped and hashed ids.",
    ),
  idBits: z
    .literal([32, 64])
    .default(32)
    .describe(
      "Bits of the data's ids for the table. With 64, any signed 64-bit number is taken from the data unchanged, and `ids` is the policy for it; with 32, an id is a row, or lies beyond the rows.",
    ),
  dynamic: dynamicOptions
    .optional()
    .describe(
      "Any 64-bit id gets a row of its own, while there are free rows; `rows` is their budget. Ids without a row add nothing to their bags. Left out: an id is a row, or follows `ids`.",
    ),
  pooling: z
    .enum(["sum", "mean"])
    .default("sum")
    .describe("How the rows of a bag become one vector: `sum` or `mean`."),
  sharding: z
    .enum(["auto", ...schemes])
    .default("auto")
    .describe(
      "How the table is cut over devices; changes speed and no bit: `auto`, as the job's `sharding` says; `table-wise`, `row-wise`, `column-wise`, `data-parallel` (a copy on every device, for small tables), `table-row-wise`, `table-column-wise` or `grid`; a plan overrides it.",
    ),
  tier: z
    .enum(tiers)
    .default("memory")
    .describe(
      "Where rows lie; changes speed and no bit: `memory`, all in device memory; `cached`, in the tiers below it, from which a batch's rows are fetched; a plan overrides it.",
    ),
  keep: z
    .enum(["spill", "durable"])
    .default("spill")
    .describe(
      "What happens to a cached table's rows in the backing store when the run ends or pauses. `spill`: they are deleted; `durable`: they stay in `tiers.directory`, and a run that resumes from that checkpoint uses them instead of reading the rows from it. It changes speed, and no bit.",
    ),
  rowBlocks: z
    .literal([1, 2, 4, 8, 16, 32, 64])
    .default(1)
    .describe(
      "Fixed parts of the table's rows, a power of two up to 64: the most parts that `row-wise` sharding can make; a part of the arithmetic.",
    ),
  dedup: z
    .boolean()
    .default(false)
    .describe(
      "`true`: a device fetches each row once a batch, however many of its samples look it up; changes speed and no bit; not together with `exchange` in fewer bits.",
    ),
  staleness: z
    .literal([0, 1])
    .default(0)
    .describe(
      '`1`: a step reads the table before the update of the step before, so that its vectors travel meanwhile; a part of the arithmetic, and only in `mode: "bounded"`.',
    ),
  l2: z.number().min(0).default(0).describe("Weight of the penalty l2/2 · ‖w‖² on rows."),
  l2Scope: z
    .enum(["touched", "table", "decayed"])
    .default("touched")
    .describe(
      "Rows that the penalty acts on: `touched`, the rows of the batch; `table`, all rows, by a pass over them (data-parallel only); `decayed`, all rows of any table, in closed form.",
    ),
  precision: z
    .enum(["float32", "float16", "bfloat16", "int8"])
    .default("float32")
    .describe(
      "How rows are stored: `float32`, `float16`, `bfloat16` or `int8` (one power of two for 32 columns); updates are float32, rounded stochastically and repeatably.",
    ),
  initScale: z
    .number()
    .min(0)
    .default(0)
    .describe("Rows are initialised uniform in ± this; 0 means 1/√rows."),
});

export type TableOptions = z.input<typeof tableOptions>;
export type TableSpec = z.output<typeof tableOptions>;

const rate = z.number().positive();
const beta = z.number().min(0).max(0.999999);

export const schedule = scheduleOptions
  .optional()
  .describe("How the learning rate changes over the steps. Left out: it does not.");

const adagradNumbers = {
  learningRate: rate.default(0.01).describe("Learning rate: how far a step goes."),
  epsilon: rate
    .default(1e-8)
    .describe("Added to the denominator of an update, so that it is never 0."),
  initialAccumulator: z
    .number()
    .min(0)
    .default(0)
    .describe("Both Adagrads: first value of the sums of squared gradients."),
  schedule,
};

/** Options of Adam and its variants, for rows and for dense parameters. */
export const adamOptions = {
  learningRate: rate.default(0.001).describe("Learning rate: how far a step goes."),
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
    .describe("Weight decay: decoupled in Adam (AdamW), a part of the direction in LAMB."),
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
      "With `optimizer.sparse.clip`: each element of a row's gradient is brought no further from 0 than this; left out, rows take their gradients whole.",
    ),
  })
  .optional()
  .describe("A limit of the gradients of rows. Left out: none.");

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
      .describe("Share of the average that a step keeps. The first step begins it."),
  })
  .optional()
  .describe(
    "An exponential moving average of the weights, which evaluations and predictions take instead of the weights. Left out: none.",
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
    learningRate: rate.default(0.01).describe("Learning rate: how far a step goes."),
    schedule,
    ...beside,
  }),
  z.strictObject({ kind: z.literal("adagrad"), ...adagradNumbers, ...beside }),
  z.strictObject({
    kind: z.literal("rowWiseAdagrad"),
    ...adagradNumbers,
    weightDecay: z
      .number()
      .min(0)
      .default(0)
      .describe("Weight decay: how far an update shrinks the row."),
    weightDecayMode: z
      .enum(["l2", "decoupled"])
      .default("l2")
      .describe("Row-wise Adagrad: the decay is part of the gradient, or `decoupled`."),
    ...beside,
  }),
  z.strictObject({ kind: z.literal("adam"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("partialRowWiseAdam"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("lamb"), ...adamOptions, ...beside }),
  z.strictObject({ kind: z.literal("partialRowWiseLamb"), ...adamOptions, ...beside }),
  /** The rate of a weight follows from its gradients, so FTRL has no schedule. */
  z.strictObject({
    kind: z.literal("ftrl"),
    learningRate: rate.default(0.05).describe("Learning rate: how far a step goes."),
    beta: z.number().min(0).default(1).describe("FTRL: the smoothing of its rate."),
    l1: z
      .number()
      .min(0)
      .default(0)
      .describe("FTRL: a weight is 0 while the sum of its gradients stays within this."),
    l2: z.number().min(0).default(0).describe("FTRL: its own quadratic penalty."),
    ...beside,
  }),
]);

export type SparseOptimizerOptions = z.input<typeof sparseOptimizerOptions>;
export type SparseOptimizerSpec = z.output<typeof sparseOptimizerOptions>;

/** Adam's hyperparameters, validated and complete. */
export type AdamSpec = z.output<z.ZodObject<typeof adamOptions>>;
