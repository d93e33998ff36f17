// The limit of a whole step: the products at the speed of multiply-adds from registers, then every
// row of the batch gathered and updated once at the speed of bare loops in C, all measured on as
// many cores as there are devices. All other work of a step counts as free.

import type { DensePrecision } from "../../src/kernels/contract/kernels.ts";
import type { Configuration } from "../configurations.ts";
import { sharedLimit } from "../limits/limits.ts";

/** How long each bare program measures. */
const seconds = 0.4;

export interface StepLimit {
  /** Samples/s; 0 where there is no compiler to measure it. */
  readonly rate: number;
  readonly is: string;
}

export async function measureStepLimit(
  { model, lookups, layerFlop, interactionFlop }: Configuration,
  devices: number,
  precision: DensePrecision,
): Promise<StepLimit> {
  const [{ rows = 0 } = {}] = model.tables;
  const ownRows = Math.ceil((model.tables.length * rows) / devices);
  const fma = 1e9 * (await sharedLimit(devices, "fma", seconds));
  // A processor without bfloat16 products emulates them with float32 multiply-adds.
  const bf16 = precision === "bfloat16" ? 1e9 * (await sharedLimit(devices, "bf16", seconds)) : 0;
  const products = Math.max(fma, bf16);
  const gather = await sharedLimit(devices, "gather", ownRows, lookups, seconds);
  const update = await sharedLimit(devices, "update", ownRows, seconds);
  const rowsPerSample = model.tables.length * lookups;
  const secondsPerSample =
    layerFlop / products + interactionFlop / fma + rowsPerSample / gather + rowsPerSample / update;
  const peak = `${(products / 1e9).toFixed(0)} GFLOP/s`;
  const traffic = `${(gather / 1e6).toFixed(0)} and ${(update / 1e6).toFixed(0)} Mrows/s`;
  return {
    rate: 1 / secondsPerSample,
    is: `multiply-adds at ${peak}, rows in and out at ${traffic}, ${devices} cores`,
  };
}
