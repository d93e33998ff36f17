// Calibration: measures the rates of this machine that the planner reads, with as many device
// threads as will train on it. Costs of whole steps come from probes (packages/what-if).

import { availableParallelism } from "node:os";
import {
  checkConstants,
  defaultConstants,
  type MachineConstants,
} from "../../src/planner/cost/constants.ts";
import { type RowCosts, rowCostNames } from "../../src/planner/cost/row-costs.ts";
import { noStepCosts, type StepCosts } from "../../src/planner/cost/step-costs.ts";
import { type Launcher, workerLauncher } from "../../src/ports/launcher.ts";
import {
  type CalibrationTask,
  calibrationShape,
  type DeviceRates,
} from "../threads/calibration-program.ts";
import type { CalibrationSize, RowRates } from "../threads/calibration-rows.ts";
import { type MeasuringThread, measureOnThreads } from "../threads/measuring.ts";

export interface RateOptions {
  /** Device threads that measure in parallel. */
  readonly devices: number;
  /** Bytes of memory of each device; not measured. */
  readonly memoryBytes: number;
  /** Source of the numbers, for display. */
  readonly source: string;
  readonly arithmetic?: "auto" | "native" | "reference";
  readonly size?: CalibrationSize;
  /** Numbers of devices for which `steps` has speeds. @default none */
  readonly stepsOn?: readonly number[];
}

/**
 * The default size, which takes seconds on one core: tables larger than any CPU cache, and parts as
 * large as those of a real exchange.
 */
const usualSize: CalibrationSize = {
  tableBytes: 2 ** 28,
  samples: 4096,
  idsPerBag: 20,
  partBytes: 2 ** 22,
  gradientLength: 2 ** 22,
  productExtent: 768,
  rounds: 9,
};
/** The reference kernels are about a hundred times slower. */
const referenceSize: CalibrationSize = { ...usualSize, samples: 256, productExtent: 96, rounds: 3 };

/** Returns a size for the first use of a machine, by the name of its kernels' arithmetic. */
export function quickSize(kernels: string): CalibrationSize {
  if (kernels.startsWith("reference")) return { ...referenceSize, tableBytes: 2 ** 24 };
  return { ...usualSize, tableBytes: 2 ** 27 };
}

/** A size that takes part of a second, for approximate rates. */
export const briefSize: CalibrationSize = {
  ...{ tableBytes: 2 ** 20, samples: 64, idsPerBag: 8, partBytes: 2 ** 16 },
  ...{ gradientLength: 2 ** 14, productExtent: 64, rounds: 2 },
};

/**
 * Measures the rates of this machine. Links between hosts, the tier below memory and the factors of
 * operations that the runtime does not have yet keep their defaults; `steps` has speeds alone.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function measureRates(
  options: RateOptions,
  launcher: Launcher = workerLauncher,
): Promise<MachineConstants> {
  const { devices, memoryBytes, source, arithmetic = "auto" } = options;
  const size = options.size ?? (arithmetic === "reference" ? referenceSize : usualSize);
  const ratesOn = (count: number) => {
    const common = { program: "calibrate", devices: count, arithmetic, size } as const;
    const taskOf = (thread: MeasuringThread): CalibrationTask => ({ ...common, ...thread });
    return measureOnThreads<DeviceRates>(launcher, calibrationShape(size, count), taskOf);
  };
  const rates = await ratesOn(devices);
  const slowest = (of: (rates: DeviceRates) => number | undefined): number | undefined => {
    const values = rates.flatMap((own) => of(own) ?? []);
    return values.length === 0 ? undefined : Math.min(...values);
  };
  const usual = defaultConstants.insideHost;
  const allToAll = slowest((own) => own.allToAll);
  const [below64 = 1, below128 = 1, wide = 1] = [0, 1, 2].map((at) => {
    return slowest((own) => own.rows.lookup[at]);
  });
  const dearest = (of: (rows: RowRates) => number) => Math.max(...rates.map((own) => of(own.rows)));
  const constants = checkConstants({
    source: `${source}, ${rates[0]?.arithmetic ?? ""}`,
    memoryBytes,
    memoryBandwidth: wide,
    narrowPenalty: { below64: wide / below64, below128: wide / below128 },
    blocksFactor: dearest((rows) => rows.blocksFactor),
    rows: dearestRows(rates.map((own) => own.rows.rows)),
    rowSumSeconds: dearest((rows) => rows.rowSumSeconds),
    denseShare: 1, // Copies use the same lookup kernel.
    denseUpdatePasses: dearest((rows) => rows.denseUpdatePasses),
    idSeconds: dearest((rows) => rows.idSeconds),
    dealSeconds: dearest((rows) => rows.dealSeconds),
    denseFlops: slowest((own) => own.denseFlops),
    insideHost: {
      allToAll: allToAll ?? usual.allToAll,
      // The exchange does not have these collectives yet: they count as all-to-all.
      reduceScatter: allToAll ?? usual.reduceScatter,
      allGather: allToAll ?? usual.allGather,
      allReduce: slowest((own) => own.allReduce) ?? usual.allReduce,
    },
    cores: availableParallelism(),
  });
  const { stepsOn = [] } = options;
  const [alone] = stepsOn.includes(1) && devices > 1 ? await ratesOn(1) : [];
  const steps = stepsOn.map((count) => speedsOn(count, count === 1 ? alone : undefined, rates));
  return { ...constants, steps };
}

/**
 * Returns the speed of a single device relative to the slowest of the devices that measured in
 * parallel; the row speed is the median over three widths.
 */
function speedsOn(
  devices: number,
  alone: DeviceRates | undefined,
  together: readonly DeviceRates[],
): StepCosts {
  if (alone === undefined) return { ...noStepCosts, devices };
  const faster = (of: (rates: DeviceRates) => number) =>
    Math.max(1, of(alone) / Math.min(...together.map(of)));
  const widths = [0, 1, 2].map((at) => faster(({ rows }) => rows.lookup[at] ?? 1));
  const [, rowSpeed = 1] = widths.sort((a, b) => a - b);
  const denseSpeed = faster((own) => own.denseFlops);
  return { ...noStepCosts, devices, rowSpeed, denseSpeed };
}

/** The costs of each row width, each on the device where it is highest. */
function dearestRows(devices: readonly (readonly RowCosts[])[]): RowCosts[] {
  return (devices[0] ?? []).map((first, width) => {
    const dearest = (name: (typeof rowCostNames)[number]) =>
      Math.max(...devices.map((rows) => rows[width]?.[name] ?? 0));
    const costs = Object.fromEntries(rowCostNames.map((name) => [name, dearest(name)]));
    return { ...first, ...costs };
  });
}
