// osiris submit JOB: hands a job to a running cluster.

import type { Command } from "commander";
import { connect } from "../../../internal.ts";
import {
  type ChangeArguments,
  type CommonOptions,
  type ConnectionArguments,
  connectionFlags,
  connectionOf,
  integerFrom,
  withChanges,
  withClient,
  withCommon,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import { loadJob } from "../../support/job-file.ts";
import { reportOf } from "../../views/report.ts";
import { follow, openView } from "../../views/run-view.ts";

interface SubmitOptions extends CommonOptions, ChangeArguments, ConnectionArguments {
  readonly follow?: boolean;
  readonly plan?: string;
  readonly warmStart?: string;
  readonly key?: string;
  readonly priority?: number;
}

export function addSubmit(program: Command): void {
  const command = program
    .command("submit")
    .argument("<job>", "job file; relative paths in it are relative to the cluster's directory")
    .description("submit a job to a running cluster (`osiris up`)")
    .option("--warm-start <DIRECTORY>", "begin with the trained state in this checkpoint directory")
    .option("--plan <FILE>", "place tables by this plan, a file of `osiris plan --out`")
    .option("--key <KEY>", "idempotency key: submitting again with the same key gives the same run")
    .option(
      "--priority <N>",
      "override the job's `priority`: higher gets devices first",
      integerFrom(-100),
    )
    .option("--follow", "show the run until it ends; Ctrl-C leaves it running");
  withCommon(withClient(withChanges(command)), [
    "submit job.yaml",
    "submit job.ts --nats nats://127.0.0.1:4333 --follow",
  ]).action(async (job: string, options: SubmitOptions) => {
    process.exitCode = await submit(job, options);
  });
}

async function submit(path: string, options: SubmitOptions): Promise<number> {
  const { plan, key, priority, set, seed, warmStart } = options;
  const loaded = await loadJob(path, { plan, set, seed, warmStart });
  const job = priority === undefined ? loaded : { ...loaded, priority };
  await using client = await connect(connectionOf(options));
  const run = await client.submit(job, key === undefined ? {} : { key });
  if (options.follow !== true) {
    if (options.json === true) console.log(JSON.stringify({ report: "submit", run: run.run }));
    else {
      const look = `osiris status ${run.run}${connectionFlags(options)}`;
      console.log(`Submitted as run ${run.run}; \`${look}\` shows its progress.`);
    }
    return exitCodes.done;
  }
  const view = openView({ json: options.json === true });
  view.say(`Run ${run.run} is ${(await run.status()).status}`);
  using _interrupt = onInterrupt(() => {
    view.close();
    const stop = `osiris cancel ${run.run}${connectionFlags(options)}`;
    view.say(`Run ${run.run} continues in the cluster; \`${stop}\` stops it.`);
    process.exit(exitCodes.cancelled);
  });
  try {
    const result = await follow(run, view);
    view.close();
    if (options.json === true) console.log(JSON.stringify({ report: "submit", ...result }));
    else for (const line of reportOf(result)) console.log(line);
    return result.status === "cancelled" ? exitCodes.cancelled : exitCodes.done;
  } finally {
    view.close();
  }
}
