// Reads hardware files: those of the package by name, such as `zionex`, others by path.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import {
  checkOptions,
  InputUnusableError,
  InvalidOptionError,
  nearestName,
  packageFile,
} from "../../../internal.ts";
import { type Hardware, hardwareSchema } from "./hardware.ts";

const ending = ".yaml";
const shipped = () => packageFile("hardware/");

/** The names of the kinds of machines that the package has. */
export function hardwareNames(): string[] {
  const files = readdirSync(shipped()).filter((file) => file.endsWith(ending));
  return files.map((file) => file.slice(0, -ending.length)).sort();
}

/**
 * The kind of machine of a name of the package, or of a file.
 * @throws InputUnusableError if there is none, or by field where the file is wrong
 */
export function readHardware(given: string): Hardware {
  const names = hardwareNames();
  const path = names.includes(given) ? new URL(`${given}${ending}`, shipped()) : given;
  if (!existsSync(path)) throw new InputUnusableError(given, noHardware(given, names));
  const unusable = (reason: string, cause: unknown) => {
    const message = `Cannot use the hardware file ${given}: ${reason}`;
    return new InputUnusableError(given, message, { cause });
  };
  let written: unknown;
  try {
    written = parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw unusable(
      cause instanceof Error ? (cause.message.split("\n")[0] ?? "") : `${cause}`,
      cause,
    );
  }
  return checkHardware(written, unusable);
}

/** Reads the machine of all hosts, or of trainers and, from a second file, of parameter servers. */
export function readCluster(given: string, servers?: string): Hardware {
  const kind = readHardware(given);
  return servers === undefined ? kind : { ...kind, servers: readHardware(servers) };
}

/** Checks the contents of a file. `unusable` makes the error for a reason. */
function checkHardware(
  written: unknown,
  unusable: (reason: string, cause: unknown) => InputUnusableError,
): Hardware {
  if (typeof written !== "object" || written === null || Array.isArray(written)) {
    throw unusable("expected fields, as `name`, `host` and `device`", undefined);
  }
  try {
    return checkOptions(hardwareSchema, written);
  } catch (cause) {
    if (!(cause instanceof InvalidOptionError)) throw cause;
    throw unusable(cause.message, cause);
  }
}

function noHardware(given: string, names: readonly string[]): string {
  const nearest = nearestName(given, names);
  const known =
    nearest === undefined ? `known are ${names.join(", ")}` : `did you mean ${nearest}?`;
  return `There is no hardware file ${given}, and no kind of machine of this name: ${known}`;
}
