// Chooses how many devices of one host train a job fastest, by the predicted step time. The number
// of devices changes no bit of the result (law 4), so it may depend on a prediction and on the
// speed of the machine.

import type { MachineConstants } from "../../planner/cost/constants.ts";
import { mostDevices, plainPlacement } from "../../planner/placement.ts";
import { type JobPlan, type PlanOptions, planJob } from "./plan-job.ts";
import type { PlannableJob } from "./workload.ts";

/** The chosen number of devices, and the predictions behind it. */
export interface DeviceChoice {
  readonly devices: number;
  /** By ascending devices; `step` (seconds) is undefined where no plan fits. */
  readonly predictions: readonly { readonly devices: number; readonly step: number | undefined }[];
  /** The plan for the chosen devices. */
  readonly found: JobPlan<never>;
}

/** Relative reduction of the step time for which more devices, and so more cores, are taken. */
const gainMin = 0.1;

/**
 * Plans the job on 1, 2, 4, ... devices, up to the job's slices and the machine's cores (where the
 * constants do not say, `cores`), and takes the fastest plan. A gain below a tenth does not justify
 * more devices. Where no plan fits, the largest number of devices is returned.
 */
export function chooseDevices(
  job: PlannableJob & { readonly slices: number },
  constantsFor: (devices: number) => MachineConstants,
  options: Omit<PlanOptions, "devices" | "constants" | "given" | "source"> & {
    readonly cores: number;
  },
): DeviceChoice {
  const most = Math.min(constantsFor(1).cores ?? options.cores, mostDevices(job));
  const { servers } = job.placement ?? plainPlacement;
  const counts = [servers + 1];
  for (let count = 1; count <= most; count *= 2) if (count > servers + 1) counts.push(count);
  const plans = counts.map((devices) => {
    const constants = constantsFor(devices);
    const found = planJob<never>(job, {
      ...options,
      devices: { hosts: 1, perHost: devices },
      constants,
    });
    return { devices, found, step: found.isFeasible ? found.assessment.step : undefined };
  });
  const best = plans.reduce((least, one) => {
    if (least.step === undefined) return one;
    return (one.step ?? Number.POSITIVE_INFINITY) < (1 - gainMin) * least.step ? one : least;
  });
  const predictions = plans.map(({ devices, step }) => ({ devices, step }));
  return { devices: best.devices, found: best.found, predictions };
}
