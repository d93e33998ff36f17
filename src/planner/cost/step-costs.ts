// What a step costs besides the bytes and products that the other constants count: the calls,
// hand-overs and copies that decide small steps. Calibration measures whole steps, and fits these
// costs to them (fit-step-costs.ts); where nothing was measured they are 0.

/**
 * The costs of a step on so many devices of one host. All but the speeds are seconds, each on one
 * device.
 */
export interface StepCosts {
  /** Devices that trained side by side when these costs were measured. */
  readonly devices: number;
  /**
   * How many times as fast as by the other constants rows are looked up and updated, and layers
   * computed. A device alone need not share caches, memory and a core's arithmetic with another.
   */
  readonly rowSpeed: number;
  readonly denseSpeed: number;
  /** Of a step, whatever it does: its calls, and the waits of the exchange. */
  readonly step: number;
  /** Of a shard of a table, or a copy. */
  readonly shard: number;
  /** Of a vector of the device's own samples, forward and backward; and of an element of one. */
  readonly vector: number;
  readonly element: number;
  /** Of an id of the device's own samples, wherever its row lies. */
  readonly id: number;
  /** Of a value that enters or leaves a dense layer. */
  readonly activation: number;
  /** Of a product of a sample's values with each other, as those of an interaction. */
  readonly product: number;
  /** Of a block with parameters, whatever it does: its calls. */
  readonly layer: number;
  /** Of a dense parameter: its sums over slices, and its optimizer. */
  readonly parameter: number;
  /** Of one reader: of a batch, a sample, a bag, and an id. */
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
] as const satisfies readonly (keyof StepCosts)[];
export const readCostNames = [
  "readBatch",
  "readSample",
  "readBag",
  "readId",
] as const satisfies readonly (keyof StepCosts)[];

/** The speeds, which are measured by themselves. */
export const speedNames = [
  "rowSpeed",
  "denseSpeed",
] as const satisfies readonly (keyof StepCosts)[];

/** Nothing was measured. */
export const noStepCosts: StepCosts = {
  ...{ devices: 1, rowSpeed: 1, denseSpeed: 1 },
  ...{ step: 0, shard: 0, vector: 0, element: 0, id: 0, activation: 0, product: 0 },
  ...{ layer: 0, parameter: 0 },
  ...{ readBatch: 0, readSample: 0, readBag: 0, readId: 0 },
};

/**
 * The costs on `devices` devices: as measured, or on the line between the two nearest measured
 * numbers. Beyond the largest, only the cost of a step goes on rising, as it did before.
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
