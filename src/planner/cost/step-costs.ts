// Costs of a step besides the bytes and products that the other constants count: the calls,
// synchronisation and copies that dominate small steps. They are fitted to measured steps
// (packages/what-if/tasks/fit-step-costs.ts), and 0 on a machine that was not measured.

/**
 * The costs of a step on `devices` devices of one host. All but the speeds are seconds on one
 * device, per occurrence of the named unit.
 */
export interface StepCosts {
  /** Devices that trained in parallel on the host when these costs were measured. */
  readonly devices: number;
  /**
   * Speed of lookups and updates of rows (`rowSpeed`) and of dense layers (`denseSpeed`), relative
   * to the other constants. A single device is faster, as it shares no caches, memory and
   * arithmetic units.
   */
  readonly rowSpeed: number;
  readonly denseSpeed: number;
  /** Each step, independent of its size: its calls, and the waits of the exchange. */
  readonly step: number;
  /** Each shard of a table, or copy. */
  readonly shard: number;
  /**
   * Each vector of the device's own samples, forward and backward; `element`: each of its elements.
   */
  readonly vector: number;
  readonly element: number;
  /** Each id of the device's own samples, wherever its row lies. */
  readonly id: number;
  /** Each value that enters or leaves a dense layer. */
  readonly activation: number;
  /** Each product of two values of one sample, as in an interaction. */
  readonly product: number;
  /** Each block with parameters, independent of its size: its calls. */
  readonly layer: number;
  /** Each dense parameter: its sums over slices, and its optimizer. */
  readonly parameter: number;
  /** Each dense parameter, for each slice of the device above its share of `measuredSlices`. */
  readonly sliceParameter: number;
  /** Each sum over the ids of one row in one slice, beyond those of `measuredSlices`. */
  readonly sliceRow: number;
  /** Costs of one reader: each batch, sample, bag, and id. */
  readonly readBatch: number;
  readonly readSample: number;
  readonly readBag: number;
  readonly readId: number;
}

/** The costs that are fitted to the time of a device, and to the time of a reader. */
export const deviceCostNames = [
  "step",
  "shard",
  "vector",
  "element",
  "id",
  "activation",
  "product",
  "layer",
  "parameter",
  "sliceParameter",
  "sliceRow",
] as const satisfies readonly (keyof StepCosts)[];
export const readCostNames = [
  "readBatch",
  "readSample",
  "readBag",
  "readId",
] as const satisfies readonly (keyof StepCosts)[];

/** The speeds, which are measured separately instead of fitted. */
export const speedNames = [
  "rowSpeed",
  "denseSpeed",
] as const satisfies readonly (keyof StepCosts)[];

/** Slices of a batch behind all other measured costs, which include their share of the sums. */
export const measuredSlices = 8;

/** The costs without a calibration. */
export const noStepCosts: StepCosts = {
  ...{ devices: 1, rowSpeed: 1, denseSpeed: 1 },
  ...{ step: 0, shard: 0, vector: 0, element: 0, id: 0, activation: 0, product: 0 },
  ...{ layer: 0, parameter: 0, sliceParameter: 0, sliceRow: 0 },
  ...{ readBatch: 0, readSample: 0, readBag: 0, readId: 0 },
};

/**
 * Returns the costs on `devices` devices: as measured, or interpolated linearly between the two
 * nearest measured numbers of devices. Beyond the largest, only the cost of a step rises further,
 * along the last line.
 */
export function stepCostsOn(measured: readonly StepCosts[], devices: number): StepCosts {
  const sorted = [...measured].sort((a, b) => a.devices - b.devices);
  const [first, last] = [sorted[0], sorted.at(-1)];
  if (first === undefined || last === undefined) return noStepCosts;
  if (devices <= first.devices) return { ...first, devices };
  const at = sorted.findIndex((costs) => costs.devices >= devices);
  if (sorted[at]?.devices === devices) return sorted[at];
  const to = at < 0 ? last : sorted[at];
  const from = sorted[(at < 0 ? sorted.length : at + 1) - 2];
  if (to === undefined || from === undefined) return { ...last, devices };
  const share = (devices - from.devices) / (to.devices - from.devices);
  const between = (name: keyof StepCosts) => {
    return share > 1 ? to[name] : from[name] + share * (to[name] - from[name]);
  };
  const names = [...speedNames, ...deviceCostNames, ...readCostNames];
  const costs = Object.fromEntries(names.map((name) => [name, between(name)]));
  const rise = Math.max(0, to.step - from.step);
  const step = share > 1 ? to.step + (share - 1) * rise : between("step");
  return { ...to, ...costs, devices, step };
}
