// osiris train JOB: a cluster in this process, one run on it, and its report.

import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import {
  Cluster,
  checkJob,
  type Incident,
  type JobOptions,
  type RunResult,
  resolveJob,
} from "../../../internal.ts";
import { dashboardLines } from "../../../packages/dashboard/commands/dashboard-options.ts";
import { dashboard } from "../../../packages/dashboard/index.ts";
import { holdDirectory } from "../../../storage/checkpoints/store/hold-directory.ts";
import {
  type ChangeArguments,
  type CommonOptions,
  type CredentialArguments,
  collected,
  credentialsOf,
  withChanges,
  withCommon,
  withCredentials,
} from "../../support/arguments.ts";
import { jobWithBaseline, type TaskBaselines, trainBaselines } from "../../support/baseline.ts";
import { exitCodes } from "../../support/failure.ts";
import { count } from "../../support/format.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import { loadJob } from "../../support/job-file.ts";
import { devicesFrom, fastestDevices, planWith, withConstants } from "../../support/machine.ts";
import { type ObservingArguments, observingOf, withObserving } from "../../support/observing.ts";
import { baselineLines, conclusionOf } from "../../views/baseline-lines.ts";
import { checkLines } from "../../views/check-lines.ts";
import { reportOf } from "../../views/report.ts";
import { follow, openView, type RunView } from "../../views/run-view.ts";
import { checkCurve, writeCurve } from "../checkpoints/history.ts";

interface TrainOptions
  extends CommonOptions,
    ChangeArguments,
    CredentialArguments,
    ObservingArguments {
  readonly devices?: number | "auto";
  readonly threads: number | "auto";
  readonly data?: readonly string[];
  readonly plan?: string;
  readonly warmStart?: string;
  readonly constants?: string;
  readonly nats?: string;
  readonly dryRun?: boolean;
  readonly history?: string;
  readonly baseline?: boolean;
  readonly watch?: boolean;
  readonly takeOver?: boolean;
}

export function addTrain(program: Command): void {
  const command = program
    .command("train")
    .argument("<job>", "job file: .yaml, .json, .js, .mjs or .ts (exporting `job` or a default)")
    .description(
      "train a job in this process; after Ctrl-C, the same command continues from its checkpoint",
    )
    .option(
      "--devices <N>",
      "devices (threads that compute), or auto: the fastest number (default: the job's, else auto)",
      devicesFrom,
    )
    .option("--threads <N>", "threads of each device, or auto: cores / devices", devicesFrom, 1)
    .option("--data <FILE>", "read this file instead of the job's; may be repeated", collected)
    .option("--warm-start <DIRECTORY>", "begin with the trained state in this checkpoint directory")
    .option("--plan <FILE>", "place tables by this plan, a file of `osiris plan --out`")
    .option("--history <FILE>", "write the learning curve to this CSV file at the end")
    .option(
      "--baseline",
      "compare the model with the mean, popularity and logistic regression on held-out samples",
    )
    .option("--watch", "serve a page that shows the run, and print its link")
    .option(
      "--take-over",
      "use a checkpoint directory that another process uses, and end that process's run",
    )
    .option("--dry-run", "check job and data, and list every problem; nothing is trained")
    .option("--nats <URL>", "use this nats-server instead of the embedded broker")
    .option("--token <TOKEN>", "token for that nats-server");
  withCommon(withObserving(withCredentials(withConstants(withChanges(command)))), [
    "train job.yaml",
    "train job.ts --devices 4 --data day_0.tsv.gz --data day_1.tsv.gz",
    "train job.yaml --devices 4 --plan plan.json",
    "train tuesday.yaml --warm-start checkpoints/monday",
    "train job.yaml --seed 2 --set optimizer.dense.learningRate=0.002 --set checkpoint.directory=b",
    "train job.yaml --history curve.csv",
    "train job.yaml --baseline",
    "train job.yaml --watch",
    "train job.yaml --dry-run",
    "train job.json --json | tail -1",
  ]).action(async (job: string, options: TrainOptions) => {
    process.exitCode = await train(job, options);
  });
}

async function train(path: string, options: TrainOptions): Promise<number> {
  const { devices, data, plan, nats, set, seed, warmStart } = options;
  const given = await loadJob(path, { data, plan, set, seed, warmStart });
  const job = devices === undefined ? given : { ...given, devices };
  if (options.dryRun === true) return look(job, options.json === true);
  const compared = options.baseline === true ? jobWithBaseline(job) : undefined;
  if (options.history !== undefined) checkCurve(options.history);
  planWith(options.constants);
  const planned = job.plan === undefined ? 0 : job.plan.hosts * job.plan.devicesPerHost;
  const view = openView({ json: options.json === true });
  const { checkpoint, devices: named } = resolveJob(job);
  using _held = holdDirectory(checkpoint.directory, { takeOver: options.takeOver === true });
  const requested = named || planned; // 0: the fastest number.
  await using cluster = await Cluster.start({
    devices:
      requested ||
      (await fastestDevices(resolveJob(job), options.constants, (line) => view.say(line))),
    threads: options.threads,
    // A random name keeps this cluster apart from other clusters on a shared broker.
    ...(nats === undefined ? {} : { nats, name: `train-${randomBytes(4).toString("hex")}` }),
    ...credentialsOf(options),
    ...(options.watch === true && { dashboard: dashboard() }),
    onIncident: (incident) => onIncident(incident, view),
    ...observingOf(options, "silent"),
  });
  for (const line of dashboardLines(cluster.dashboard)) view.say(line);
  try {
    const run = await cluster.submit(job);
    using _interrupt = onInterrupt(() => {
      view.say("Stopping after this step, with a checkpoint (Ctrl-C again: at once) ...");
      void run.cancel().catch((error: unknown) => view.say(String(error)));
    });
    const result = await follow(run, view);
    view.close();
    const isCompared = compared !== undefined && result.status !== "cancelled";
    const compare = async () =>
      isCompared ? trainBaselines(cluster, compared, result) : undefined;
    await printResult(result, options.json === true, compare);
    if (options.history !== undefined) writeCurve(options.history, result.directory);
    return result.status === "cancelled" ? exitCodes.cancelled : exitCodes.done;
  } finally {
    view.close();
  }
}

/** Checks the job and its data, without training. */
async function look(job: JobOptions, json: boolean): Promise<number> {
  const { checks, isFit } = await checkJob(job);
  if (json) console.log(JSON.stringify({ report: "train.dry-run", checks, isFit }));
  else {
    for (const line of checkLines(checks)) console.log(line);
    console.log(isFit ? "The job fits; nothing was started." : "Nothing was started.");
  }
  return isFit ? exitCodes.done : exitCodes.wrong;
}

/** Prints failures outside the run. Failures that the run survives are among its events. */
function onIncident({ offender, supervisor, reason }: Incident, view: RunView): void {
  view.say(`  ! ${offender} failed and was restarted by ${supervisor}: ${reason.message}`);
}

/** Prints the result. `compare` trains baselines after that; undefined: none are wanted. */
async function printResult(
  result: RunResult,
  json: boolean,
  compare: () => Promise<TaskBaselines[] | undefined>,
): Promise<void> {
  if (json) {
    const baselines = (await compare())?.map((task) => {
      return { ...task, conclusion: conclusionOf(task.model, task.baselines) };
    });
    console.log(JSON.stringify({ report: "train", ...result, baselines }));
  } else if (result.status === "cancelled") {
    console.log(
      `Stopped after step ${count(result.step)}, with a checkpoint in ${result.directory}.`,
    );
    console.log("The same command continues from there.");
  } else {
    for (const line of reportOf(result)) console.log(line);
    for (const line of baselineLines((await compare()) ?? [])) console.log(line);
  }
}
