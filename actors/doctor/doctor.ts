// The doctor: checks a machine, a broker, an object store, and a job with its data before a run,
// and gives advice on problems. It leaves nothing behind but its verdict in the store.

import { TransportLostError } from "../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { jobSchema } from "../../src/job/job-schema.ts";
import { realClock } from "../../src/ports/clock.ts";
import { clusterDeadlines, type DeadlineLine, deadlineTree } from "../../src/ports/deadlines.ts";
import { isObjectAddress } from "../../src/ports/object-store.ts";
import { startBroker } from "../../src/wire/broker/broker.ts";
import type { Credentials } from "../../src/wire/transports/credentials.ts";
import { probeServer } from "../../src/wire/transports/probe.ts";
import { brokerChecks, type Check, check } from "./doctor-checks.ts";
import { jobChecks } from "./doctor-job.ts";
import { machineChecks } from "./doctor-machine.ts";
import { storeChecks } from "./doctor-store.ts";

/** Options of `diagnose`. */
export interface DoctorOptions extends Credentials {
  /** The job to check; left out: no memory, directories or data are checked. */
  readonly job?: JobOptions | undefined;
  /** A broker, `nats://host:4222`. @default an embedded broker, started for the check */
  readonly nats?: string | undefined;
  /** An object store to try, `s3://bucket/prefix`. @default that of the job's checkpoints */
  readonly store?: string | undefined;
  /** Number of devices of the run on this machine. @default the job's, else 2 */
  readonly devices?: number | undefined;
}

/** The result of a diagnosis. */
export interface Diagnosis {
  readonly checks: readonly Check[];
  /** All deadlines of the job (without a job: the defaults), then those of a cluster. */
  readonly deadlines: readonly DeadlineLine[];
  /** Whether no check fails. */
  readonly isHealthy: boolean;
  /** Whether no check of the job fails: its data, its memory, its directories. */
  readonly isJobFit: boolean;
}

/** Runs all checks. @throws InvalidOptionError if the job or the credentials are wrong */
export async function diagnose(options: DoctorOptions = {}): Promise<Diagnosis> {
  const { job: given, nats, devices: wanted, ...credentials } = options;
  const job = given === undefined ? undefined : resolveJob(given);
  const ofJobs = job?.checkpoint.directory ?? "";
  const store = options.store ?? (isObjectAddress(ofJobs) ? ofJobs : undefined);
  const devices = wanted ?? (job?.devices || 2);
  const { stepDeadlineMs } = job ?? {
    stepDeadlineMs: jobSchema.shape.stepDeadlineMs.parse(undefined),
  };
  const ofJob = job === undefined ? [] : await jobChecks(job, devices);
  const checks = [
    ...(await machineChecks(devices, realClock)),
    ...ofJob,
    ...(store === undefined ? [] : await storeChecks(store)),
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
      const found = "no broker was named: checked an embedded broker, as `osiris up` starts it";
      return [check("broker", "ok", found), ...rest];
    } finally {
      await broker.close();
    }
  }
  try {
    return brokerChecks(await probeServer(nats, credentials, realClock));
  } catch (error) {
    if (!(error instanceof TransportLostError)) throw error;
    const advice = "check that the server runs, its address, and the credentials";
    return [check("broker", "fail", error.message, advice)];
  }
}
