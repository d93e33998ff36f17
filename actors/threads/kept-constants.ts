// Calibrated constants of this machine in their file: the path, the key, and whether the file
// belongs to this machine. actors/calibration measures them; a thread that plans only reads them.
// Beside them lies the file with the measured links between hosts, which the leader writes.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { openKernels } from "../../src/kernels/index.ts";
import {
  areKnown,
  checkConstants,
  defaultConstants,
  type MachineConstants,
  serverConstants,
} from "../../src/planner/cost/constants.ts";
import { type HostMachine, keptLinksSchema, type LinkKeeper } from "../../src/planner/fleet.ts";
import { packageVersion } from "../../src/ports/entry-file.ts";

/**
 * Version of the measuring method, incremented wherever a change alters the meaning of constants.
 */
const method = 3;

export const machineKeySchema = z.strictObject({
  version: z.string(),
  method: z.int(),
  processor: z.string(),
  cores: z.int(),
  arithmetic: z.string(),
});
/** One entry per kernel arithmetic, since a machine may train with several in turn. */
const constantsFileSchema = z.strictObject({
  measured: z.array(z.strictObject({ key: machineKeySchema, constants: z.unknown() })),
});

type Measured = z.output<typeof constantsFileSchema>["measured"];

/** The key of constants: everything that they depend on. */
export type MachineKey = z.output<typeof machineKeySchema>;

type Arithmetic = "auto" | "native" | "reference";

/** Path of this user's file: in `$XDG_CACHE_HOME`, or in `~/.cache`. */
export function machineConstantsPath(): string {
  const { XDG_CACHE_HOME: given = "" } = process.env;
  return join(given === "" ? join(homedir(), ".cache") : given, "osiris", "machine.json");
}

/** The key of this machine with these kernels. */
export function machineKeyOf(arithmetic: Arithmetic): MachineKey {
  return {
    version: packageVersion(),
    method,
    processor: cpus()[0]?.model.trim() || "an unnamed processor",
    cores: availableParallelism(),
    arithmetic: openKernels(arithmetic).arithmetic,
  };
}

/** Reads all entries of a file. @throws the disk's error, or a parse error */
function readMeasured(path: string): Measured {
  return constantsFileSchema.parse(JSON.parse(readFileSync(path, "utf8"))).measured;
}

/** The text of the file with these constants, which replace those for the same kernels. */
export function withMeasured(path: string, key: MachineKey, constants: MachineConstants): string {
  let others: Measured = [];
  try {
    others = readMeasured(path).filter(({ key: { arithmetic } }) => arithmetic !== key.arithmetic);
  } catch {
    // A missing or damaged file has nothing to keep.
  }
  return `${JSON.stringify({ measured: [...others, { key, constants }] }, null, 2)}\n`;
}

/** The constants in the file; or, as a string, why they do not apply to this machine. */
export function readKept(path: string, key: MachineKey): MachineConstants | string {
  if (!existsSync(path)) return "it has not been measured";
  try {
    const all = readMeasured(path);
    const own = all.find(({ key: { arithmetic } }) => arithmetic === key.arithmetic);
    if (own === undefined) return `it has not been measured with the kernels ${key.arithmetic}`;
    const other = (Object.keys(key) as (keyof MachineKey)[]).find(
      (name) => own.key[name] !== key[name],
    );
    if (other === undefined) return checkConstants(own.constants);
    return `${path} is of ${other} ${own.key[other]}, not ${key[other]}`;
  } catch (error) {
    const isKnown = error instanceof SyntaxError || error instanceof z.ZodError;
    if (isKnown || error instanceof InvalidOptionError) return `${path} is damaged`;
    return `${path} cannot be read (${String(error)})`;
  }
}

/**
 * The constants for a run's plan: those named by `OSIRIS_CONSTANTS` (a file, or v100), else those
 * kept for this machine, else those of a small server. Nothing is measured.
 * @throws InvalidOptionError, or the disk's error, where OSIRIS_CONSTANTS does not name valid
 *   constants
 */
export function constantsOfRun(arithmetic: Arithmetic): MachineConstants {
  const { OSIRIS_CONSTANTS: named = "" } = process.env;
  if (named === "v100") return defaultConstants;
  if (named !== "") return checkConstants(JSON.parse(readFileSync(named, "utf8")));
  const kept = readKept(machineConstantsPath(), machineKeyOf(arithmetic));
  return typeof kept === "string" ? serverConstants : kept;
}

/** The hardware that this host announces, with its speed where it is known. */
export function hardwareHere(memoryBytes: number): HostMachine {
  const own = { memoryBytes, cores: availableParallelism() };
  try {
    const constants = constantsOfRun("auto");
    if (!areKnown(constants)) return own;
    return { ...own, lookups: constants.memoryBandwidth, flops: constants.denseFlops };
  } catch {
    return own; // The search for a plan reports the fault in the constants.
  }
}

/** Writes a file atomically. Returns the reason if that fails. */
export function keepText(path: string, text: string): string | undefined {
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

const linksFileSchema = z.strictObject({
  links: z.array(
    z.strictObject({
      machines: z.array(z.string()),
      broker: z.string(),
      version: z.string(),
      measured: keptLinksSchema,
    }),
  ),
});

type KeptLinks = z.output<typeof linksFileSchema>["links"];

/** Most measurements in the file; the oldest is forgotten. */
const keptLinksMax = 32;

/** Path of this user's file of links, beside that of constants. */
export function linksPath(): string {
  return join(dirname(machineConstantsPath()), "links.json");
}

/** The links in the file, the newest first; none if it is missing, damaged or outdated. */
export function readLinks(path: string = linksPath()): KeptLinks {
  try {
    const { links } = linksFileSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    return links.filter(({ version }) => version === packageVersion());
  } catch {
    return [];
  }
}

/** Keeps links in a file. Undefined where the environment names the constants of runs. */
export function linkKeeper(path: string = linksPath()): LinkKeeper | undefined {
  if ((process.env.OSIRIS_CONSTANTS ?? "") !== "") return undefined;
  return {
    find(machines, broker) {
      const wanted = countsOf(machines);
      return readLinks(path).find((own) => {
        const counts = countsOf(own.machines);
        const hasAll = [...wanted].every(([name, count]) => (counts.get(name) ?? 0) >= count);
        return own.broker === placeOf(broker) && hasAll;
      })?.measured;
    },
    keep(machines, broker, measured) {
      const own = { machines: [...machines].sort(), broker: placeOf(broker) };
      const others = readLinks(path).slice(0, keptLinksMax - 1);
      const links = [{ ...own, version: packageVersion(), measured }, ...others];
      return keepText(path, `${JSON.stringify({ links }, null, 2)}\n`);
    },
  };
}

function countsOf(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The machines of a broker's address: without credentials and ports, which change. */
function placeOf(broker: string): string {
  const hosts = broker.split(",").map((one) => one.replace(/^.*[@/]/, "").replace(/:\d+$/, ""));
  return hosts.sort().join();
}
