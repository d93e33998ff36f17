// The constants of this machine, measured once and kept in a file of the user. They are measured
// anew where the file is damaged, or was measured elsewhere: on another processor, with other
// kernels, by another version.

import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { dirname } from "node:path";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import {
  machineConstantsPath,
  machineKeyOf,
  readKept,
  withMeasured,
} from "../threads/kept-constants.ts";
import { type CalibrationOptions, calibrate, quickSize } from "./calibrate.ts";

export interface MachineConstantsOptions {
  readonly arithmetic?: "auto" | "native" | "reference";
  /** The file that keeps the constants. @default machineConstantsPath() */
  readonly path?: string;
  /** Measures in any case. */
  readonly isRenewed?: boolean;
  /** Told before the machine is measured: why. */
  readonly onMeasure?: (reason: string) => void;
  /** Told while the machine is measured: the share of all that is done. */
  readonly onProgress?: ((done: number) => void) | undefined;
  /** @default calibrate */
  readonly measure?: (options: CalibrationOptions) => Promise<MachineConstants>;
}

/** Constants of this machine, and what of them was kept. */
export interface KnownMachine {
  /** `memoryBytes` are those of all devices together. */
  readonly constants: MachineConstants;
  readonly path: string;
  /** Why the constants are not kept; undefined: they are. */
  readonly notKept?: string;
}

/** Share of the machine's memory that devices have. */
const memoryShare = 0.75;
/** Most devices that whole steps are measured on. */
const devicesMax = 8;

/** The constants of this machine, as they are kept; if they are not, measured in some seconds. */
export async function machineConstants(
  options: MachineConstantsOptions = {},
): Promise<KnownMachine> {
  const { path = machineConstantsPath(), arithmetic = "auto", isRenewed = false } = options;
  const { onMeasure, onProgress, measure = calibrate } = options;
  const key = machineKeyOf(arithmetic);
  const kept = isRenewed ? "it is measured anew" : readKept(path, key);
  if (typeof kept !== "string") return { constants: kept, path };
  onMeasure?.(kept);
  const cores = availableParallelism();
  const constants = await measure({
    ...{ arithmetic, onProgress, size: quickSize(key.arithmetic), stepsOn: measuredDevices(cores) },
    devices: Math.min(2, cores),
    memoryBytes: Math.floor(memoryShare * totalmem()),
    source: key.processor,
  });
  const notKept = keep(path, withMeasured(path, key, constants));
  return { constants, path, ...(notKept === undefined ? {} : { notKept }) };
}

/** Devices on which whole steps are measured: 1, 2, and as many as there are cores, up to 8. */
export function measuredDevices(cores: number): number[] {
  const most = Math.min(devicesMax, 2 ** Math.floor(Math.log2(cores)));
  return [...new Set([1, Math.min(2, most), most])];
}

/** The constants for one of so many devices, which share the machine's memory. */
export function constantsOfDevice(constants: MachineConstants, devices: number): MachineConstants {
  return { ...constants, memoryBytes: Math.floor(constants.memoryBytes / devices) };
}

/** Writes the file, whole or not at all. Returns why that was not possible. */
function keep(path: string, text: string): string | undefined {
  const temporary = `${path}.${process.pid}`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(temporary, text);
    renameSync(temporary, path);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
