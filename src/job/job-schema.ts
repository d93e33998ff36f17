// The options of a job, as one schema. Each folder below declares its own options; this file adds
// those of the job itself, its planner, its preprocessing workers and its warm start.

import { z } from "zod";
import { dataOptions } from "../data/options.ts";
import { sparseOptimizerOptions } from "../embedding/tables/options.ts";
import { tiersOptions } from "../embedding/tables/tier-options.ts";
import { exchangeOptions } from "../exchange/options.ts";
import { lossOptions } from "../model/loss-options.ts";
import { denseOptimizerOptions, modelOptions } from "../model/options.ts";
import { placementKinds } from "../planner/placement.ts";
import { planFileSchema } from "../planner/plan-file.ts";
import { pathOption } from "../ports/option-schemas.ts";
import { checkpointOptions, checkpointPlace } from "../training/checkpoint/checkpoint-options.ts";
import { pipelineOptions } from "../training/loop/pipeline-options.ts";
import { asynchronousOptions } from "./asynchronous-options.ts";
import { evaluationOptions } from "./evaluation-options.ts";

const adapt = z.strictObject({
  everySteps: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(500)
    .describe(
      "Least number of steps before the first search for a plan, and between two searches.",
    ),
  gainMin: z
    .number()
    .min(0)
    .max(0.99)
    .default(0.05)
    .describe("Least share of a step's time that a new plan must save."),
  margin: z
    .number()
    .min(0)
    .max(1000)
    .default(2)
    .describe(
      "A new plan must save, over the remaining steps, at least this many times the time of the move.",
    ),
});

/** Schema of the verdict on learned costs that a submission records. */
export const ownVerdictSchema = z.strictObject({
  devices: z.int().min(1).describe("Devices of one host that the plans were measured on."),
  gain: z.number().describe("Mean share of a step that the plans saved; negative: slower."),
  low: z.number().describe("Lower end of the 95 % confidence interval of `gain`."),
  high: z.number().describe("Upper end of the interval."),
  isFaster: z.boolean().describe("Whether the costs plan the run, instead of the formulas."),
});

/** Most files of learned costs of a job. */
export const costFilesMax = 16;

const costsPath = pathOption("data", z.string().min(1));
const costFile = z.strictObject({
  file: costsPath.describe("File of learned costs, of `osiris plan --calibrate --learn`."),
  sha256: z
    .string()
    .min(1)
    .optional()
    .describe("SHA-256 of the file. Left out: filled in when the job is submitted."),
  verdict: ownVerdictSchema
    .optional()
    .describe(
      "Filled in when the job is submitted, for files that the machine has learned itself: whether their plans were measured to be faster. Such a file does not fail a run: where it is missing, or its plans were not faster, formulas decide.",
    ),
});

export type CostFile = z.output<typeof costFile>;

/**
 * Schema of `JobOptions.planner`: by which costs the run searches its plans, and whether it
 * searches for better ones while it trains.
 */
export const plannerOptions = z.strictObject({
  adapt: z
    .union([adapt, z.boolean().transform((is) => (is ? adapt.parse({}) : undefined))])
    .optional()
    .describe(
      "`true`, or an object with the options below: the run measures its devices, searches for better plans while it trains, and moves to a plan that saves enough time; changes no bit. `false` or left out: the run keeps its plan. Requires `sharding: auto` and no `plan`.",
    ),
  costs: z
    .union([
      z.literal("formulas"),
      costsPath.transform((file): CostFile[] => [{ file }]),
      z.array(costFile).min(1).max(costFilesMax),
    ])
    .optional()
    .describe(
      "A file of learned costs, or a list of files for other numbers of devices, by which the run searches its plans, also after a failure; or `formulas`. Left out: the machine's own learned costs where `osiris plan --calibrate --verdict` measured their plans to be faster, else formulas. Changes no bit. With other devices, hosts or batches than those of the files formulas decide. Files require `sharding: auto` and no `plan`.",
    ),
});

/** Conditions under which a run switches to another plan. */
export type AdaptSpec = z.output<typeof adapt>;

/** Schema of `JobOptions.preprocessing`: the workers that make samples, and their deadlines. */
const preprocessingOptions = z
  .strictObject({
    workersMin: z
      .int()
      .min(0)
      .max(64)
      .default(1)
      .describe(
        "Least number of preprocessing workers of the run. With a section `preprocessing`, workers make the samples of data without a cache, instead of readers; changes no bit.",
      ),
    workersMax: z
      .int()
      .min(0)
      .max(64)
      .default(4)
      .describe(
        "Most workers of the run. Between `workersMin` and `workersMax`, the run has as many as its readers need.",
      ),
    threads: z
      .boolean()
      .default(true)
      .describe(
        "`true`: hosts run workers as threads, in addition to `osiris dpp-worker` processes; `false`: only such processes make samples.",
      ),
    splitDeadlineMs: z
      .int()
      .min(100)
      .max(3_600_000)
      .default(20_000)
      .describe("Longest time in milliseconds that a worker may take for a split."),
    attemptsMax: z
      .int()
      .min(1)
      .max(100)
      .default(3)
      .describe("The run ends with an error once a split has failed this many times."),
  })
  .superRefine(({ workersMin, workersMax }, context) => {
    if (workersMin <= workersMax) return;
    const message = `at least \`workersMin\`, ${workersMin}`;
    context.addIssue({ code: "custom", path: ["workersMax"], message, input: workersMax });
  });

/** Schema of `JobOptions.warmStart`: the earlier run that a job begins with (warm-start.ts). */
const warmStartOptions = z.strictObject({
  from: pathOption("kept", checkpointPlace).describe(
    "Checkpoint directory of an earlier run. This run begins with the state of one of its checkpoints.",
  ),
  checkpoint: z
    .string()
    .min(1)
    .optional()
    .describe(
      "The checkpoint: `best`, `last`, or the first digits of its manifest's hash. Left out: the best if the earlier job stopped early, else the last.",
    ),
  step: z
    .int()
    .min(0)
    .optional()
    .describe("Step of that checkpoint. Left out: filled in when the job is submitted."),
  digest: z
    .string()
    .min(1)
    .optional()
    .describe("Digest of that checkpoint's model. Left out: filled in when the job is submitted."),
});

/** The default optimizers of a job. */
export const usualOptimizer = {
  dense: { kind: "adagrad" },
  sparse: { kind: "rowWiseAdagrad" },
} as const;

/** Most devices of a run; test/exchange/layout.test.ts bounds the memory that they take. */
export const devicesMax = 1024;

/** Options of the placement of rows. */
const placementOptions = z.strictObject({
  kind: z
    .enum(placementKinds)
    .default("auto")
    .describe(
      "`auto`: `sharding` and the tables decide. `device`: all rows in device memory, `tiers.hbmBytes` of each device. `host`: in the memory of the host, behind caches of `tiers.hbmBytes`; nothing but checkpoints touches a disk. `servers`: on devices that run no samples. `hybrid`: the tables with most lookups for their bytes in device memory, the others on servers or, without servers, in host memory behind caches.",
    ),
  servers: z
    .int()
    .min(0)
    .max(devicesMax - 1)
    .default(0)
    .describe(
      "Devices that hold rows and run no samples: the last devices of the run. For `servers` and `hybrid`. With fewer devices, for example after a failure, one device at least runs samples.",
    ),
});

const autoDevices = z.literal("auto").transform(() => 0);
const devicesAre = `an integer from 0 to ${devicesMax}, or "auto"`;

/** The numbers of slices that a batch may have. */
export const sliceCounts = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, devicesMax] as const;

/** The usual number, until the job chooses by its batch (choose-cuts.ts). */
const autoSlices = z.literal("auto").transform(() => 8 as const);
const slicesAre = `one of ${sliceCounts.join(", ")}, or "auto"`;

/** Schema of every option of a job. A test compares it with the table in docs/jobs.md. */
export const jobSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "letters, digits, - and _, at most 64")
    .default("job")
    .describe("Name of the job: letters, digits, - and _, at most 64."),
  mode: z
    .enum(["exact", "bounded", "async"])
    .default("exact")
    .describe(
      "`exact`: each step reads the rows that the previous step wrote, and a failure loses no update. `bounded`: rows may be read one update late (`staleness`), checkpoints may have fewer bits, gradients may be sent late (`exchange.topk`), and partial recovery may lose some updates. `async`: trainers and parameter servers without common steps, a baseline whose result differs from run to run.",
    ),
  async: asynchronousOptions
    .optional()
    .describe(
      'Trainers and parameter servers, only with `mode: "async"`. Left out: one server a host, one thread a trainer.',
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
    .describe("The optimizers of the dense layers and of the tables."),
  loss: lossOptions
    .prefault({ kind: "binaryCrossEntropy" })
    .describe("The loss, computed from logits and labels."),
  exchange: exchangeOptions
    .prefault({})
    .describe(
      "The precision in which devices exchange embeddings and gradients. Fewer than 32 bits change the result: the precision is a part of the arithmetic.",
    ),
  evaluation: evaluationOptions
    .optional()
    .describe(
      "Evaluation on held-out samples, at cuts. Options that its `data` leave out are those of the training data. Left out: no evaluation.",
    ),
  checkpoint: checkpointOptions
    .prefault({})
    .describe("When checkpoints are written, to which directory, and how many are kept."),
  warmStart: warmStartOptions
    .optional()
    .describe("Begin with the state of an earlier run. Left out: begin with new weights."),
  seed: z.int().min(0).default(1).describe("Seed of all random numbers of the run."),
  slices: z
    .union([autoSlices, z.literal(sliceCounts)], { error: slicesAre })
    .prefault("auto")
    .describe(
      "Number of fixed slices (microbatches) of a batch: a power of two up to 1024, and the most devices of a run; a part of the arithmetic. `auto`: 8, or more for batches of 8192 samples and more: slices of 512 to 1023 samples.",
    ),
  priority: z
    .int()
    .min(-100)
    .max(100)
    .default(0)
    .describe(
      "Priority in the queue, -100 to 100: a run of higher priority gets devices first, and may preempt a run of lower priority.",
    ),
  devices: z
    .union([autoDevices, z.int().min(0).max(devicesMax)], { error: devicesAre })
    .prefault(0)
    .describe(
      "Number of devices of the run. 0 or `auto`: all devices of the cluster, or, where `osiris train` starts the cluster, the number that is predicted to be fastest; changes no bit.",
    ),
  sharding: z
    .enum(["auto", "as-written"])
    .default("auto")
    .describe(
      "How tables with `sharding: auto` are placed. `auto`: each generation searches for a plan that fits its devices and their memory; `as-written`: whole tables on devices, the costliest table first. Changes speed and memory, and no bit.",
    ),
  plan: planFileSchema
    .optional()
    .describe(
      "A sharding plan of `osiris plan --out`, which `--plan FILE` inserts here. A plan is for one number of devices; with another number, for example after a failure, `sharding` decides.",
    ),
  placement: placementOptions
    .prefault({})
    .describe("Where the rows of tables rest. Changes speed and memory, and no bit."),
  planner: plannerOptions
    .prefault({})
    .describe("Whether the run searches for better plans while it trains; changes no bit."),
  pipeline: pipelineOptions.prefault({}).describe("Number of batches in flight on a device."),
  tiers: tiersOptions
    .prefault({})
    .describe('Memory budgets and backing store of tables with `tier: "cached"`.'),
  readers: z.int().min(1).max(16).default(1).describe("Reader threads of the run."),
  preprocessing: preprocessingOptions
    .optional()
    .describe(
      "Preprocessing workers, which make the samples of data without a cache, in threads of the hosts or in `osiris dpp-worker` processes. Left out: the readers make the samples.",
    ),
  arithmetic: z
    .enum(["auto", "native", "reference"])
    .default("auto")
    .describe("Kernels: `native`, `reference`, or `auto`: the native kernels if they are built."),
  stepDeadlineMs: z
    .int()
    .min(100)
    .max(86_400_000)
    .default(30_000)
    .describe(
      "Longest time of a step in milliseconds; every other timeout of the run follows from it.",
    ),
  recoveryMs: z
    .int()
    .min(0)
    .default(0)
    .describe(
      "Target time of a recovery in milliseconds, from the failure to the first step after it. A longer recovery raises `run.alert` with `RECOVERY_SLOW`; 0: no target.",
    ),
  restarts: z
    .strictObject({
      restartsMax: z
        .int()
        .min(0)
        .default(10)
        .describe("Most restores within `windowMs`; one more ends the run with an error."),
      windowMs: z
        .int()
        .min(1)
        .default(600_000)
        .describe("The time window of `restartsMax`, in milliseconds."),
    })
    .prefault({})
    .describe("Limit of a run's restores within a time window."),
});
