// The job: a user's request for a training run, as plain data that is sent between threads and over
// NATS. Each folder declares its own options; this file combines them into one specification, which
// is completed and checked once.

import { createHash } from "node:crypto";
import { z } from "zod";
import { isStreamed } from "../data/data-kinds.ts";
import { type DataOptions, dataOptions } from "../data/options.ts";
import { shownPath } from "../data/remote/addresses.ts";
import { wrongGroupIn } from "../data/sessions/ikjt-options.ts";
import { targetsOf } from "../data/targets.ts";
import { checkTables, denseOf } from "../data/text/columns.ts";
import { identityOf } from "../data/transforms/vocabulary.ts";
import {
  type SparseOptimizerOptions,
  sparseOptimizerOptions,
} from "../embedding/tables/options.ts";
import { type TiersOptions, tiersOptions } from "../embedding/tables/tier-options.ts";
import { type ExchangeOptions, exchangeOptions } from "../exchange/options.ts";
import { shapesOf } from "../model/features.ts";
import { type LossOptions, lossIdentity, lossOptions } from "../model/loss.ts";
import {
  type DenseOptimizerOptions,
  denseOptimizerOptions,
  type ModelOptions,
  modelOptions,
} from "../model/options.ts";
import { planFileSchema } from "../planner/plan-file.ts";
import { checkAll, checkOptions, expected } from "../ports/check-options.ts";
import { isSection } from "../ports/written.ts";
import {
  type CheckpointOptions,
  checkpointOptions,
} from "../training/checkpoint/checkpoint-options.ts";
import { pipelineOptions } from "../training/loop/pipeline-options.ts";
import { checkDecay } from "./check-decay.ts";
import {
  checkAdapt,
  checkBits,
  checkDynamic,
  checkPartial,
  checkPlan,
  checkStaleness,
} from "./check-placement.ts";
import { checkTasks } from "./check-tasks.ts";
import {
  checkEvaluation,
  type EvaluationOptions,
  evaluationOptions,
  splitIdentity,
  stoppingOf,
  withEvaluationData,
} from "./evaluation-options.ts";
import { withLeftOut } from "./left-out.ts";
import { type PlannerOptions, plannerOptions } from "./planner-options.ts";
import { type PreprocessingOptions, preprocessingOptions } from "./preprocessing-options.ts";
import { warmStartIdentity } from "./warm-start.ts";
import { warmStartOptions } from "./warm-start-options.ts";

/** The default optimizers of a job. */
export const usualOptimizer = {
  dense: { kind: "adagrad" },
  sparse: { kind: "rowWiseAdagrad" },
} as const;

const autoDevices = z.literal("auto").transform(() => 0);
const devicesAre = 'an integer from 0 to 128, or "auto"';

/** Schema of every option of a job. A test compares it with the table in docs/jobs.md. */
export const jobSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "letters, digits, - and _, at most 64")
    .default("job")
    .describe("Name of the job: letters, digits, - and _, at most 64."),
  mode: z
    .enum(["exact", "bounded"])
    .default("exact")
    .describe(
      "`exact`: each step reads the rows that the step before wrote; `bounded` allows `staleness`, checkpoints in fewer bits, and partial recovery.",
    ),
  model: modelOptions.describe("The model: its architecture by `kind`, its tables and its layers."),
  data: dataOptions.describe("The training data, by `kind`: files, or generated samples."),
  optimizer: z
    .strictObject({
      dense: denseOptimizerOptions
        .prefault(usualOptimizer.dense)
        .describe("The update rule of the dense layers. Left out: Adagrad."),
      sparse: sparseOptimizerOptions
        .prefault(usualOptimizer.sparse)
        .describe("The update rule of the rows of tables. Left out: row-wise Adagrad."),
    })
    .prefault({})
    .describe("How gradients change the weights, of dense layers and of tables."),
  loss: lossOptions
    .prefault({ kind: "binaryCrossEntropy" })
    .describe("How logits and labels become the loss."),
  exchange: exchangeOptions
    .prefault({})
    .describe(
      "The precision of embeddings and gradients in transit; fewer bits are a part of the arithmetic.",
    ),
  evaluation: evaluationOptions
    .optional()
    .describe(
      "Evaluation on held-out samples, at cuts; what its `data` leave out is as in the training data. Left out: none.",
    ),
  checkpoint: checkpointOptions
    .prefault({})
    .describe("When checkpoints are written, where, and how many are kept."),
  warmStart: warmStartOptions
    .optional()
    .describe("Begin with the state of an earlier run, instead of anew."),
  seed: z.int().min(0).default(1).describe("All random numbers follow from it."),
  slices: z
    .literal([1, 2, 4, 8, 16, 32, 64, 128])
    .default(8)
    .describe(
      "Fixed parts of a batch, a power of two up to 128; a part of the arithmetic; at least the devices.",
    ),
  priority: z
    .int()
    .min(-100)
    .max(100)
    .default(0)
    .describe(
      "-100 to 100; a run of higher priority gets devices first, and may preempt a run of lower priority.",
    ),
  devices: z
    .union([autoDevices, z.int().min(0).max(128)], { error: devicesAre })
    .prefault(0)
    .describe(
      "Devices to run on; 0 or `auto`: all devices of the cluster; where `osiris train` starts the cluster, as many as are predicted to be fastest; changes no bit of the result.",
    ),
  sharding: z
    .enum(["auto", "as-written"])
    .default("auto")
    .describe(
      "Places the tables whose own `sharding` is `auto`; changes speed and memory, and no bit: `auto`, each generation searches a plan for its devices and their memory; `as-written`, whole, the costliest first.",
    ),
  plan: planFileSchema
    .optional()
    .describe(
      "A sharding plan from `osiris plan --out`; `--plan FILE` puts it here. It holds for one number of devices; with another number, as after a failure, `sharding` decides.",
    ),
  planner: plannerOptions
    .prefault({})
    .describe("Whether a run looks for better plans while it trains. It changes no bit."),
  pipeline: pipelineOptions.prefault({}).describe("How many batches are in flight at one time."),
  tiers: tiersOptions
    .prefault({})
    .describe('The backing store of device memory, for tables of `tier: "cached"`.'),
  readers: z.int().min(1).max(16).default(1).describe("Reader threads."),
  preprocessing: preprocessingOptions
    .optional()
    .describe(
      "Workers that make the samples of data without a cache, on threads of the hosts or in processes of their own (`osiris dpp-worker`). Left out: the readers make them.",
    ),
  arithmetic: z
    .enum(["auto", "native", "reference"])
    .default("auto")
    .describe("Kernels: `native`, `reference`, or `auto`: native if they are built."),
  stepDeadlineMs: z
    .int()
    .min(100)
    .max(86_400_000)
    .default(30_000)
    .describe("Longest that a step may take; every other timeout follows from it."),
  recoveryMs: z
    .int()
    .min(0)
    .default(0)
    .describe(
      "Longest that a recovery should take, from the failure to the first step after it: a longer one raises `run.alert` with `RECOVERY_SLOW`; 0: any.",
    ),
  restarts: z
    .strictObject({
      restartsMax: z
        .int()
        .min(0)
        .default(10)
        .describe("Restores that a run may need within `windowMs` before it is given up."),
      windowMs: z.int().min(1).default(600_000).describe("The time window of `restartsMax`."),
    })
    .prefault({})
    .describe("Restores that a run may need within a time before it is given up."),
});

/** A job as a user writes it. */
export interface JobOptions {
  readonly name?: string;
  readonly mode?: "exact" | "bounded";
  readonly model: ModelOptions;
  readonly data: DataOptions;
  readonly optimizer?: {
    readonly dense?: DenseOptimizerOptions;
    readonly sparse?: SparseOptimizerOptions;
  };
  readonly loss?: LossOptions;
  readonly exchange?: ExchangeOptions;
  readonly evaluation?: EvaluationOptions;
  readonly checkpoint?: CheckpointOptions;
  readonly warmStart?: z.input<typeof warmStartOptions>;
  readonly seed?: number;
  readonly slices?: z.input<typeof jobSchema>["slices"];
  readonly priority?: number;
  readonly devices?: number | "auto";
  readonly sharding?: "auto" | "as-written";
  readonly plan?: z.input<typeof planFileSchema>;
  readonly planner?: PlannerOptions;
  readonly pipeline?: z.input<typeof pipelineOptions>;
  readonly tiers?: TiersOptions;
  readonly readers?: number;
  readonly preprocessing?: PreprocessingOptions;
  readonly arithmetic?: "auto" | "native" | "reference";
  readonly stepDeadlineMs?: number;
  readonly recoveryMs?: number;
  readonly restarts?: z.input<typeof jobSchema>["restarts"];
}

/** A job after its checks: complete and frozen. */
export type JobSpec = z.output<typeof jobSchema>;

/** Completes and checks a job. @throws InvalidOptionError */
export function resolveJob(options: unknown): JobSpec {
  const job = checkOptions(jobSchema, withEvaluationData(completed(options)));
  checkAll([
    () => checkEvaluation(job, shapesOf(job.model)),
    () => checkData(job),
    () => checkTasks(job),
    () => checkStaleness(job),
    () => checkBits(job),
    () => checkPartial(job),
    () => checkDedup(job),
    () => checkTiers(job),
    () => checkDecay(job),
    () => checkDynamic(job),
    () => checkPlan(job),
    () => checkAdapt(job),
    () => checkPreprocessing(job),
  ]);
  return job;
}

/**
 * Calls `withLeftOut`; if that refuses the job, also checks the sections that it does not read, so
 * that one error reports the problems of both.
 */
function completed(options: unknown): unknown {
  try {
    return withLeftOut(options);
  } catch (error) {
    const {
      model: _model,
      data: _data,
      evaluation: _evaluation,
      ...rest
    } = options as object & Partial<Record<"model" | "data" | "evaluation", unknown>>;
    const others = jobSchema.omit({ model: true, data: true, evaluation: true });
    const refuse = () => {
      throw error;
    };
    checkAll([refuse, () => void checkOptions(others, rest)]);
    throw error;
  }
}

/** @throws InvalidOptionError where columns and tables, or dense features, contradict each other */
function checkData({ data, model }: JobSpec): void {
  if (!data.shuffle && data.order !== undefined) {
    throw expected(
      "data.order",
      "left out, as `data.shuffle` is false: samples come as in the file",
      data.order,
    );
  }
  if (data.order === "sessions" && !targetsOf(data).hasGroups) {
    const why =
      "another order, or `data.group` beside it (of generated data, `data.sessions`): the column that " +
      "says which samples are a session";
    throw expected("data.order", why, data.order);
  }
  if (data.kind !== "synthetic") checkTables(data, shapesOf(model));
  const wrong =
    data.ikjt &&
    wrongGroupIn(
      data.ikjt,
      shapesOf(model).map(({ name }) => name),
    );
  if (wrong !== undefined) {
    const { group, place, name } = wrong;
    throw expected(`data.ikjt.groups[${group}][${place}]`, wrong.expected, name);
  }
  const dense = denseOf(data);
  if (dense === model.dense) return;
  if (data.kind === "synthetic") throw expected("data.dense", `the model's, ${model.dense}`, dense);
  throw expected("model.dense", `left out, or that of the data, ${dense}`, model.dense);
}

/** @throws InvalidOptionError where preprocessing workers would have no samples to make */
function checkPreprocessing({ data, preprocessing }: JobSpec): void {
  if (preprocessing === undefined || isStreamed(data)) return;
  const why =
    "left out where the samples lie in a cache; workers make those of data with `cache: none`";
  throw expected("preprocessing", why, preprocessing);
}

/**
 * Gradients of repeated rows are summed on a device, over its slices, before they are sent. If the
 * exchange rounded these sums, they would depend on the number of devices (law 4).
 * @throws InvalidOptionError
 */
function checkDedup({ model, exchange }: JobSpec): void {
  const table = model.tables.findIndex(({ dedup }) => dedup);
  if (table < 0 || (exchange.forward === "float32" && exchange.backward === "float32")) return;
  throw expected(
    `model.tables[${table}].dedup`,
    "false where `exchange` sends fewer bits, as their rounding would depend on the devices",
    true,
  );
}

/** @throws InvalidOptionError */
function checkTiers({ model }: JobSpec): void {
  for (const [i, { tier, sharding, staleness }] of model.tables.entries()) {
    if (tier === "memory") continue;
    const path = `model.tables[${i}].tier`;
    if (sharding === "data-parallel") {
      const why = '"memory" where `sharding` is "data-parallel": a copy is in memory';
      throw expected(path, why, tier);
    }
    if (staleness > 0) throw expected(path, '"memory" where the table has `staleness`', tier);
  }
}

/**
 * Returns the hash of all options that decide the trained bits. Devices, deadlines and names do not
 * count, so that jobs that differ only in these may share a checkpoint directory. Intervals of cuts
 * count only with stale tables, as these are read fresh after each cut.
 */
export function jobIdentity(job: JobSpec): string {
  const { optimizer, exchange, evaluation, checkpoint, seed, slices } = job;
  const model = withoutSharding(job.model);
  const data = withoutPlace(job.data);
  const held = evaluation?.data === undefined ? undefined : withoutPlace(evaluation.data);
  const split = splitIdentity(evaluation);
  const stop = stoppingOf(evaluation, held);
  const mode = job.mode === "exact" ? undefined : job.mode;
  const cuts = job.model.tables.some(({ staleness }) => staleness > 0)
    ? [checkpoint.everySteps, evaluation?.everySteps]
    : undefined;
  const begin = warmStartIdentity(job);
  const loss = lossIdentity(job.loss);
  const decides = { model, data, optimizer, loss, exchange, seed, slices };
  const parts = { ...decides, split, stop, mode, cuts, begin };
  return createHash("sha256").update(canonical(parts)).digest("hex");
}

/** The model without the placement of its rows and the path of its module, which decide no bit. */
function withoutSharding(model: JobSpec["model"]) {
  const tables = model.tables.map((table) => {
    const { sharding, dedup, tier, keep, staleness, ...rest } = table;
    return { ...rest, staleness: staleness || undefined };
  });
  // A module is identified by its contents.
  return { ...model, tables, ...("path" in model ? { path: undefined } : {}) };
}

/**
 * The data without options that decide no bit of a step, such as the directory of its cache, and
 * without the number of epochs.
 */
function withoutPlace(data: JobSpec["data"]) {
  const { cache: _cache, cacheBytesMax: _bytes, passes: _passes, ...others } = data;
  const transforms = "transforms" in others ? others.transforms : undefined;
  const rest = { ...others, ...(transforms && { transforms: identityOf(transforms) }) };
  // Credentials in signed URLs are no part of the data.
  const paths = "paths" in others ? { paths: others.paths.map(shownPath) } : {};
  const limits = { quarantineMax: undefined, rejectedMax: undefined, damagedMax: undefined };
  return { ...rest, ...paths, ...limits, labelAsFeature: undefined };
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner) =>
    isSection(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
