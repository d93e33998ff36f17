// The options of a job, as one schema. Each folder below declares its own options; this file adds
// those of the job itself, its planner, its preprocessing workers and its warm start.

import { z } from "zod";
import { dataOptions } from "../data/options.ts";
import { sparseOptimizerOptions } from "../embedding/tables/options.ts";
import { tiersOptions } from "../embedding/tables/tier-options.ts";
import { exchangeOptions } from "../exchange/options.ts";
import { lossOptions } from "../model/loss-options.ts";
import { denseOptimizerOptions, modelOptions } from "../model/options.ts";
import { planFileSchema } from "../planner/plan-file.ts";
import { pathOption } from "../ports/option-schemas.ts";
import { checkpointOptions } from "../training/checkpoint/checkpoint-options.ts";
import { pipelineOptions } from "../training/loop/pipeline-options.ts";
import { evaluationOptions } from "./evaluation-options.ts";

const adapt = z.strictObject({
  everySteps: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(500)
    .describe("Least steps of each device between two searches, and before the first."),
  gainMin: z
    .number()
    .min(0)
    .max(0.99)
    .default(0.05)
    .describe("Share of a step that a plan must save."),
  margin: z
    .number()
    .min(0)
    .max(1000)
    .default(2)
    .describe("A plan must save so many times the seconds of its move in the remaining steps."),
});

/** Schema of `JobOptions.planner`: whether the run searches for better plans while it trains. */
export const plannerOptions = z.strictObject({
  adapt: z
    .union([adapt, z.boolean().transform((is) => (is ? adapt.parse({}) : undefined))])
    .optional()
    .describe(
      "Left out or `false`: the run keeps its plan. Else measurements of the devices refine the prediction while the run trains, and the run moves to a better plan where that pays; changes no bit. `true`: with the defaults below. Only with `sharding: auto`, and without a `plan`.",
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
        "Least number of workers of the run. With a section `preprocessing`, workers instead of readers make the samples of data without a cache; it changes no bit.",
      ),
    workersMax: z
      .int()
      .min(0)
      .max(64)
      .default(4)
      .describe(
        "Most workers of the run: between `workersMin` and this number, as many as the readers need.",
      ),
    threads: z
      .boolean()
      .default(true)
      .describe(
        "Hosts run workers as threads, besides the `osiris dpp-worker` processes; `false`: processes alone.",
      ),
    splitDeadlineMs: z
      .int()
      .min(100)
      .max(3_600_000)
      .default(20_000)
      .describe("How long a worker may take for a split, in milliseconds."),
    attemptsMax: z
      .int()
      .min(1)
      .max(100)
      .default(3)
      .describe("Failures of one split before the run ends with an error that names it."),
  })
  .superRefine(({ workersMin, workersMax }, context) => {
    if (workersMin <= workersMax) return;
    const message = `at least \`workersMin\`, ${workersMin}`;
    context.addIssue({ code: "custom", path: ["workersMax"], message, input: workersMax });
  });

/** Schema of `JobOptions.warmStart`: the earlier run that a job begins with (warm-start.ts). */
const warmStartOptions = z.strictObject({
  from: pathOption("kept", z.string().min(1)).describe(
    "Checkpoint directory of an earlier run, whose state this one begins with.",
  ),
  checkpoint: z
    .string()
    .min(1)
    .optional()
    .describe(
      "`best`, `last`, or how the hash of a manifest begins; left out, the best where that job stopped early, else the last.",
    ),
  step: z
    .int()
    .min(0)
    .optional()
    .describe("Step of that checkpoint. Left out: submission fills it in."),
  digest: z
    .string()
    .min(1)
    .optional()
    .describe("Digest of its model. Left out: submission fills it in."),
});

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
