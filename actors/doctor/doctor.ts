// The doctor: looks at a machine, a broker and a job with its data before a run does, and says
// what to do about what is not well. It changes nothing, and leaves nothing behind.

import { TransportLostError } from "../../src/errors/errors.ts";
import { type JobOptions, jobSchema, resolveJob } from "../../src/job/job.ts";
import { realClock } from "../../src/ports/clock.ts";
import { clusterDeadlines, type DeadlineLine, deadlineTree } from "../../src/ports/deadlines.ts";
import { startBroker } from "../../src/wire/broker/broker.ts";
import type { Credentials } from "../../src/wire/transports/credentials.ts";
import { probeServer } from "../../src/wire/transports/probe.ts";
import { brokerChecks, type Check, check } from "./doctor-checks.ts";
import { jobChecks } from "./doctor-job.ts";
import { machineChecks } from "./doctor-machine.ts";

/** What `diagnose` may be told. */
export interface DoctorOptions extends Credentials {
  /** The job that is to run here; left out, its directories and its memory are not looked at. */
  readonly job?: JobOptions | undefined;
  /** A broker, `nats://host:4222`. @default an embedded broker, started for the check */
  readonly nats?: string | undefined;
  /** Devices that are to run here. @default the job's, else 2 */
  readonly devices?: number | undefined;
}

/** What was found. */
export interface Diagnosis {
  readonly checks: readonly Check[];
  /** Every deadline of the job, without a job the defaults; then those of a cluster. */
  readonly deadlines: readonly DeadlineLine[];
  /** Whether nothing fails. */
  readonly isHealthy: boolean;
  /** Whether nothing of the job fails: its data, its memory, its directories. */
  readonly isJobFit: boolean;
}

/** Looks. @throws InvalidOptionError where the job or the credentials are wrong */
export async function diagnose(options: DoctorOptions = {}): Promise<Diagnosis> {
  const { job: given, nats, devices: wanted, ...credentials } = options;
  const job = given === undefined ? undefined : resolveJob(given);
  const devices = wanted ?? (job?.devices || 2);
  const { stepDeadlineMs } = job ?? {
    stepDeadlineMs: jobSchema.shape.stepDeadlineMs.parse(undefined),
  };
  const ofJob = job === undefined ? [] : await jobChecks(job, devices);
  const checks = [
    ...(await machineChecks(devices, realClock)),
    ...ofJob,
    ...(await brokerFound(nats, credentials)),
  ];
  const isWell = (some: readonly Check[]) => some.every(({ state }) => state !== "fail");
  const deadlines = [...deadlineTree({ stepDeadlineMs }), ...clusterDeadlines()];
  return { checks, deadlines, isHealthy: isWell(checks), isJobFit: isWell(ofJob) };
}

async function brokerFound(nats: string | undefined, credentials: Credentials): Promise<Check[]> {
  if (nats === undefined) {
    const broker = await startBroker();
    try {
      const { token } = broker.auth as { readonly token?: string };
      const [, ...rest] = brokerChecks(await probeServer(broker.url, { token }, realClock));
      const found = "none was named: looked at an embedded one, as `osiris up` starts it";
      return [check("broker", "ok", found), ...rest];
    } finally {
      await broker.close();
    }
  }
  try {
    return brokerChecks(await probeServer(nats, credentials, realClock));
  } catch (error) {
    if (!(error instanceof TransportLostError)) throw error;
    const advice = "check the address, whether the server runs, and the credentials";
    return [check("broker", "fail", error.message, advice)];
  }
}
