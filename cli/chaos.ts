// osiris chaos: breaks clusters by what seeds draw, and looks whether anything was lost.

import { type Command, InvalidArgumentError } from "commander";
import { type CommonOptions, integerFrom, withCommon } from "./arguments.ts";
import { type SimulationArguments, simulation, simulationHelp } from "./simulation.ts";

/** Adds the command. */
export function addChaos(program: Command): void {
  const command = program
    .command("chaos")
    .description("break simulated clusters by what seeds draw, and look whether anything is lost")
    .requiredOption("--simulate", "whole clusters in one thread and virtual time")
    .option("--seeds <LIST>", "one schedule for each of these: 1-1000, or 3,5,8", seedsFrom, [1])
    .option("--jobs <N>", "threads that share the seeds", integerFrom(1), 2)
    .option("--no-shrink", "leave a schedule that fails as it is");
  withCommon(command, ["chaos --simulate --seeds 1-1000", "chaos --simulate --seeds 42 --json"])
    .addHelpText("after", simulationHelp)
    .action(async (options: CommonOptions & SimulationArguments) => {
      process.exitCode = await simulation(options);
    });
}

function seedsFrom(text: string): number[] {
  return text.split(",").flatMap((part) => {
    const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(part.trim()) ?? [];
    if (first === undefined || Number(last) < Number(first)) {
      throw new InvalidArgumentError("Expected seeds, as in 1-50 or 3,5,8.");
    }
    const seeds = Number(last) - Number(first) + 1;
    return Array.from({ length: seeds }, (_, i) => Number(first) + i);
  });
}
