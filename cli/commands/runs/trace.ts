// osiris trace RUN -o FILE: writes the work of a run's threads in its last steps as a trace for
// ui.perfetto.dev. Timelines are always recorded, so that nothing has to be enabled before.

import { writeFile } from "node:fs/promises";
import type { Command } from "commander";
import { chromeTrace, clocksOf, connect, InputUnusableError } from "../../../internal.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  integerFrom,
  withCommon,
  withConnection,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { count, plural } from "../../support/format.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import { namedRun } from "../../support/named-run.ts";

interface TraceArguments extends CommonOptions, ConnectionArguments {
  readonly output: string;
  readonly steps?: number;
  readonly last: number;
}

/** Most steps of a trace: more than a device keeps. */
const stepsMax = 1000;

export function addTrace(program: Command): void {
  const command = program
    .command("trace")
    .argument("<run>", "a run or the name of its job, as `osiris ls` lists them")
    .description(
      "write the work of every device, reader, bridge and writer of a run as a trace for " +
        "ui.perfetto.dev; a finished run can be traced while its hosts run",
    )
    .option("-o, --output <FILE>", "the file to write", "trace.json")
    .option(
      "--last <N>",
      "trace the last N steps that the devices keep",
      integerFrom(1, stepsMax),
      20,
    )
    .option("--steps <N>", "wait for the next N steps, and trace these", integerFrom(1, stepsMax));
  withCommon(withConnection(command), [
    "trace r12-1 -o trace.json",
    "trace r12-1 --steps 50                      # Ctrl-C ends without a file",
  ]).action(trace);
}

async function trace(name: string, options: TraceArguments): Promise<void> {
  const { output, steps, last } = options;
  await using client = await connect(connectionOf(options));
  const run = await namedRun(client, name);
  using _interrupt = onInterrupt(() => process.exit(exitCodes.cancelled));
  const found = await run.timelines({ steps: steps ?? last, areNext: steps !== undefined });
  const { generation, fromStep, toStep, missing } = found;
  const clocks = clocksOf(found);
  try {
    await writeFile(output, chromeTrace(found));
  } catch (error) {
    const message = `Expected to write the trace to ${output}: ${(error as Error).message}`;
    throw new InputUnusableError(output, message, { cause: error });
  }
  const made = toStep - fromStep + 1;
  if (options.json === true) {
    const about = { run: run.run, output, generation, fromStep, toStep, clocks, missing };
    console.log(JSON.stringify({ report: "trace", ...about }));
    return;
  }
  const precision = Math.max(...clocks.map(({ precisionMs }) => precisionMs ?? Number.NaN));
  const aligned =
    clocks.length === 1
      ? ""
      : Number.isNaN(precision)
        ? "; no frames of some hosts were seen both ways: their clocks are not aligned"
        : `; clocks of hosts aligned to ${precision.toFixed(3)} ms`;
  console.log(
    `${output}: steps ${count(fromStep)} to ${count(toStep)} of run ${run.run}, ` +
      `generation ${generation}, ${plural(clocks.length, "host")}${aligned}. Open it in ui.perfetto.dev`,
  );
  const lost = missing.map((host) => `host:${host}`).join(", ");
  if (lost !== "") console.error(`No timeline of this generation came from ${lost}`);
  if (steps !== undefined && made < steps) {
    console.error(`The trace has ${count(made)} steps, not ${count(steps)}: devices keep no more`);
  }
}
