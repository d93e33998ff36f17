// The constants of this machine, measured once and kept in a file of the user. They are measured
// again if the file is damaged, or comes from another processor, other kernels or another version.

import { availableParallelism } from "node:os";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import { memoryOfProcess } from "../../src/ports/process-memory.ts";
import {
  keepText,
  machineConstantsPath,
  machineKeyOf,
  readKept,
  withMeasured,
} from "../threads/kept-constants.ts";
import { quickSize, type RateOptions } from "./measure-rates.ts";

export interface MachineConstantsOptions {
  readonly arithmetic?: "auto" | "native" | "reference";
  /** The file that keeps the constants. @default machineConstantsPath() */
  readonly path?: string;
  /** Whether to measure even if constants are kept. */
  readonly isRenewed?: boolean;
  /** Called with the reason before the machine is measured. */
  readonly onMeasure?: (reason: string) => void;
  readonly measure: (options: RateOptions) => Promise<MachineConstants>;
}

/** The constants of this machine, and whether they are kept. */
export interface KnownMachine {
  /** `memoryBytes` is that of all devices together. */
  readonly constants: MachineConstants;
  readonly path: string;
  /** Why the constants could not be written to the file; undefined: they were. */
  readonly notKept?: string;
}

/** Share of the process's memory that devices may use. */
const memoryShare = 0.75;
/** Maximum number of devices that whole steps are measured on. */
const devicesMax = 8;

/** Returns the kept constants of this machine; if there are none, measures them in some seconds. */
export async function machineConstants(options: MachineConstantsOptions): Promise<KnownMachine> {
  const { path = machineConstantsPath(), arithmetic = "auto", isRenewed = false } = options;
  const { onMeasure, measure } = options;
  const key = machineKeyOf(arithmetic);
  const kept = isRenewed ? "it is measured anew" : readKept(path, key);
  // The same machine may give another container more memory, or less.
  const memoryBytes = Math.floor(memoryShare * memoryOfProcess());
  if (typeof kept !== "string") return { constants: { ...kept, memoryBytes }, path };
  onMeasure?.(kept);
  const cores = availableParallelism();
  const constants = await measure({
    ...{ arithmetic, size: quickSize(key.arithmetic), stepsOn: measuredDevices(cores) },
    devices: Math.min(2, cores),
    memoryBytes,
    source: key.processor,
  });
  const notKept = keepText(path, withMeasured(path, key, constants));
  return { constants, path, ...(notKept === undefined ? {} : { notKept }) };
}

/**
 * Returns the numbers of devices on which whole steps are measured: 1, 2, and the largest power of
 * two up to the cores and to 8.
 */
export function measuredDevices(cores: number): number[] {
  const largest = Math.min(devicesMax, 2 ** Math.floor(Math.log2(cores)));
  return [...new Set([1, Math.min(2, largest), largest])];
}

/** Returns the constants for one of `devices` devices, which share the machine's memory. */
export function constantsOfDevice(constants: MachineConstants, devices: number): MachineConstants {
  return { ...constants, memoryBytes: Math.floor(constants.memoryBytes / devices) };
}
