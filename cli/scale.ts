// osiris scale RUN: goes on with another number of devices.

import type { Command } from "commander";
import { connect } from "../index.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  connectionOf,
  integerFrom,
  withClient,
  withCommon,
} from "./arguments.ts";
import { plural } from "./format.ts";

interface ScaleOptions extends CommonOptions, ConnectionArguments {
  readonly devices: number;
}

/** Adds the command. */
export function addScale(program: Command): void {
  const command = program
    .command("scale")
    .argument("<run>", "the run, as `osiris status` lists it")
    .description("go on with another number of devices after the current step, with the same bits")
    .requiredOption("--devices <N>", "devices to go on with", integerFrom(1));
  withCommon(withClient(command), ["scale r12-1 --devices 4"]).action(
    async (run: string, options: ScaleOptions) => {
      const { devices, json } = options;
      await using client = await connect(connectionOf(options));
      await client.run(run).scale({ devices });
      if (json === true) console.log(JSON.stringify({ report: "scale", run, devices }));
      else console.log(`Run ${run} goes on with ${plural(devices, "device")}.`);
    },
  );
}
