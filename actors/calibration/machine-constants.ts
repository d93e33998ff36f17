// The constants of this machine, measured once and kept in a file of the user. They are measured
// anew where the file is damaged, or was measured elsewhere: on another processor, with other
// kernels, by another version.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, homedir, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { checkConstants, type MachineConstants } from "../../src/planner/cost/constants.ts";
import { packageVersion } from "../runtime/version.ts";
import { type CalibrationOptions, calibrate, quickSize } from "./calibrate.ts";

const keySchema = z.strictObject({
  version: z.string(),
  processor: z.string(),
  cores: z.int(),
  arithmetic: z.string(),
});
const fileSchema = z.strictObject({ key: keySchema, constants: z.unknown() });

/** What the constants of a machine depend on. */
type MachineKey = z.output<typeof keySchema>;

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

/** The file of this user: in `$XDG_CACHE_HOME`, or in `~/.cache`. */
export function machineConstantsPath(): string {
  const { XDG_CACHE_HOME: given = "" } = process.env;
  return join(given === "" ? join(homedir(), ".cache") : given, "osiris", "machine.json");
}

/** The constants of this machine, as they are kept; if they are not, measured in some seconds. */
export async function machineConstants(
  options: MachineConstantsOptions = {},
): Promise<KnownMachine> {
  const { path = machineConstantsPath(), arithmetic = "auto", isRenewed = false } = options;
  const { onMeasure, onProgress, measure = calibrate } = options;
  const key = keyOf(arithmetic);
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
  const notKept = keep(path, { key, constants });
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

function keyOf(arithmetic: "auto" | "native" | "reference"): MachineKey {
  return {
    version: packageVersion(),
    processor: cpus()[0]?.model.trim() || "an unnamed processor",
    cores: availableParallelism(),
    arithmetic: openKernels(arithmetic).arithmetic,
  };
}

/** The constants in the file; or why they are not those of this machine. */
function readKept(path: string, key: MachineKey): MachineConstants | string {
  if (!existsSync(path)) return "it has not been measured";
  try {
    const found = fileSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    const other = (Object.keys(key) as (keyof MachineKey)[]).find(
      (name) => found.key[name] !== key[name],
    );
    if (other === undefined) return checkConstants(found.constants);
    return `${path} is of ${other} ${found.key[other]}, not ${key[other]}`;
  } catch (error) {
    const isKnown = error instanceof SyntaxError || error instanceof z.ZodError;
    if (isKnown || error instanceof InvalidOptionError) return `${path} is damaged`;
    return `${path} cannot be read (${String(error)})`;
  }
}

/** Writes the file, whole or not at all. Returns why that was not possible. */
function keep(path: string, file: z.output<typeof fileSchema>): string | undefined {
  const temporary = `${path}.${process.pid}`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(temporary, `${JSON.stringify(file, null, 2)}\n`);
    renameSync(temporary, path);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
