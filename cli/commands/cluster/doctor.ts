// osiris doctor [JOB]: checks whether a machine, a broker, an object store and a job with its data
// are fit for a run, and lists every deadline of the job.

import { type Command, Option } from "commander";
import { type Diagnosis, diagnose } from "../../../internal.ts";
import {
  type CommonOptions,
  type CredentialArguments,
  credentialsFor,
  integerFrom,
  withCommon,
  withCredentials,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { duration, plural } from "../../support/format.ts";
import { loadJob } from "../../support/job-file.ts";
import { checkLines } from "../../views/check-lines.ts";

interface DoctorOptions extends CommonOptions, CredentialArguments {
  readonly nats?: string;
  readonly devices?: number;
  readonly store?: string;
}

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .argument("[job]", "job file: check its data, directories, memory and deadlines too")
    .description(
      "check machine, broker, store and job before a run; exit code 1: one of the first three fails, 2: the job fails",
    )
    .option(
      "--devices <N>",
      "check cores and memory for N devices (default: the job's, else 2)",
      integerFrom(1),
    )
    .option(
      "--store <URL>",
      "object store to try and to measure, s3://bucket/prefix: it must keep If-None-Match (default: that of the job's checkpoints)",
    )
    .addOption(
      new Option(
        "--nats <URL>",
        "broker to check (default: an embedded one, started for the check)",
      ).env("OSIRIS_NATS"),
    )
    .addOption(
      new Option("--token <TOKEN>", "broker's token (default: that of a local `osiris up`)").env(
        "OSIRIS_TOKEN",
      ),
    );
  withCommon(withCredentials(command), [
    "doctor",
    "doctor --store s3://bucket/checkpoints",
    "doctor job.yaml --devices 8 --nats nats://10.0.0.5:4222 --token 4f1c...",
  ]).action(async (path: string | undefined, options: DoctorOptions) => {
    const { nats, devices, store, json } = options;
    const job = path === undefined ? undefined : await loadJob(path);
    const credentials = nats === undefined ? {} : credentialsFor(nats, options);
    const diagnosis = await diagnose({ job, nats, devices, store, ...credentials });
    if (json) console.log(JSON.stringify({ report: "doctor", ...diagnosis }));
    else for (const line of diagnosisLines(diagnosis)) console.log(line);
    const failed = diagnosis.isJobFit ? exitCodes.failed : exitCodes.wrong;
    process.exitCode = diagnosis.isHealthy ? exitCodes.done : failed;
  });
}

/** The diagnosis for people, as lines. */
export function diagnosisLines({ checks, deadlines, isHealthy }: Diagnosis): string[] {
  const depths = new Map<string, number>();
  const tree = deadlines.map(({ name, within, what, ms }) => {
    const depth = within === undefined ? 0 : (depths.get(within) ?? 0) + 1;
    depths.set(name, depth);
    return `  ${duration(ms / 1000).padStart(8)}  ${"  ".repeat(depth)}${what}`;
  });
  const worst = checks.filter(({ state }) => state !== "ok").length;
  const verdict = isHealthy ? "Nothing fails" : "Something fails";
  const advised = `${plural(worst, "line")} of ${checks.length} ${worst === 1 ? "has" : "have"} advice`;
  return [
    ...checkLines(checks),
    "",
    "Deadlines, from the step deadline of the job; then those of a cluster, from its options:",
    ...tree,
    "",
    worst === 0 ? "All is well." : `${verdict}; ${advised}.`,
  ];
}
