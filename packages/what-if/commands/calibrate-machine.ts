// osiris calibrate --machine: measures this machine, and writes it as a hardware file.

import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { measuringHere } from "../../../cli/support/machine.ts";
import {
  InputUnusableError,
  machineConstants,
  memoryOfProcess,
  realClock,
} from "../../../internal.ts";
import { measureDisk, measuredHardware } from "../hardware/measured-hardware.ts";
import type { TaskCosts } from "../tasks/task-costs.ts";
import { measureMachine } from "../tasks/task-probes.ts";

export interface MachineArguments {
  readonly out?: string;
  readonly json?: boolean;
}

/** Measures this machine. Keeps the constants for later runs, as `osiris plan --calibrate` does. */
export async function calibrateMachine({ out, json }: MachineArguments): Promise<void> {
  const disk = measured(out, () =>
    measureDisk(out === undefined ? "." : dirname(resolve(out)), realClock),
  );
  console.error("Measuring this machine ...");
  const how = measuringHere((line) => console.error(line));
  let tasks: readonly TaskCosts[] = [];
  const { constants } = await machineConstants({
    isRenewed: true,
    async measure(options) {
      const found = await measureMachine({ ...options, ...how });
      tasks = found.tasks;
      return found.constants;
    },
  });
  const parts = { cores: availableParallelism(), memoryBytes: memoryOfProcess(), disk };
  const text = measuredHardware(constants, tasks, parts);
  if (out !== undefined) measured(out, () => writeFileSync(out, text));
  const report = { report: "calibrate", ...(out !== undefined && { file: out }) };
  if (json === true) console.log(JSON.stringify({ ...report, hardware: parse(text) }));
  else console.log(out === undefined ? text.trimEnd() : `${out}: ${constants.source}`);
}

/** @throws InputUnusableError where the file or its directory cannot be written */
function measured<Result>(out: string | undefined, write: () => Result): Result {
  try {
    return write();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const path = out ?? ".";
    throw new InputUnusableError(path, `Cannot write ${path}: ${reason}`, { cause });
  }
}
