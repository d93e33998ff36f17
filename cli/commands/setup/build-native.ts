// osiris build-native: compiles the native kernels in the directory of the package.

import type { Command } from "commander";
import { buildNative } from "../../../src/kernels/native/build-native.ts";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";

export function addBuildNative(program: Command): void {
  const command = program
    .command("build-native")
    .description(
      "compile the native kernels: much faster than those in TypeScript (needs a C++ compiler)",
    );
  const verbose =
    "print every command of the build, the compiler's output, and the stack of an error";
  const examples = ["build-native", "build-native --verbose"];
  withCommon(command, examples, { verbose }).action((options: CommonOptions) => {
    const progress = process.stderr.fd;
    const { built, message } = buildNative({ progress, verbose: options.verbose === true });
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
