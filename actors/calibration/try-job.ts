// A trial: trains some steps of a job before its run, on its own data and on separate threads. A
// trial takes a second or two instead of the twenty seconds of a calibration, and predicts this job
// alone: all constants are scaled by one factor, so that the plan is the same as without the trial.

import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { type MachineConstants, slowed } from "../../src/planner/cost/constants.ts";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { workerLauncher } from "../../src/ports/launcher.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { prepareData } from "../threads/data/prepare-data.ts";
import { machineKeyOf } from "../threads/kept-constants.ts";
import { type ProbePorts, quietest, type SampleTimes, timeSteps } from "./time-steps.ts";

export interface TrialOptions {
  /** Devices of one host. */
  readonly devices: number;
  /** The constants to scale. */
  readonly constants: MachineConstants;
  readonly times?: SampleTimes;
}

/** About half a second of warm-up for the JIT, and half a second that counts. */
const usualTimes = { warmUpMs: 500, warmUpSteps: 60, longestMs: 1500, sampleMs: 4, samples: 50 };

/**
 * Returns the constants, scaled so that they predict the measured step of the job. Creates the data
 * cache that the run would create, and keeps it.
 * @throws the errors of preparing the data
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function tryJob(
  options: JobOptions,
  { devices, constants, times = usualTimes }: TrialOptions,
  ports: ProbePorts = { launcher: workerLauncher, clock: realClock },
): Promise<MachineConstants> {
  const job = resolveJob(options);
  const data = await prepareData(job, realDisk, () => {});
  const { statistics, ikjt } = data;
  const found = planJob(job, {
    devices: { hosts: 1, perHost: devices },
    constants,
    statistics,
    ikjt,
  });
  if (!found.isFeasible) return constants;
  const planned = resolveJob({ ...options, plan: JSON.parse(found.text) });
  const samples = await timeSteps([{ job: planned, data, times }], devices, ports);
  const measured = quietest(samples, ({ stepMs }) => stepMs) / 1000;
  if (!(measured > 0)) return constants;
  const { processor } = machineKeyOf(job.arithmetic);
  const source = `${processor}, by a trial of the job`;
  return { ...slowed(constants, measured / found.assessment.step), source };
}
