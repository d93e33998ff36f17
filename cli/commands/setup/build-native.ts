// osiris build-native: compiles the native kernels where the package lies.

import type { Command } from "commander";
import { buildNative } from "../../../index.ts";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";

/** Adds the command. */
export function addBuildNative(program: Command): void {
  const command = program
    .command("build-native")
    .description("compile the native kernels, which are many times as fast (needs a C++ compiler)");
  withCommon(command, ["build-native"]).action((options: CommonOptions) => {
    const { built, message } = buildNative({ progress: process.stderr.fd });
    if (options.json === true) {
      console.log(JSON.stringify({ report: "build-native", built, message }));
    } else if (built) {
      console.log(message);
    } else {
      console.error(`osiris: The native kernels could not be built: ${message}`);
    }
    process.exitCode = built ? exitCodes.done : exitCodes.failed;
  });
}
