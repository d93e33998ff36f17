#!/usr/bin/env node
// osiris <command>: one file a command. A command resolves to its exit code, or throws why it
// failed.

import { Command } from "commander";
import { packageVersion } from "../index.ts";
import { addChaos } from "./commands/chaos/chaos.ts";
import { addCheckpoint } from "./commands/checkpoints/checkpoint.ts";
import { addEval } from "./commands/checkpoints/eval.ts";
import { addTable } from "./commands/checkpoints/table.ts";
import { addVerify } from "./commands/checkpoints/verify.ts";
import { addDoctor } from "./commands/cluster/doctor.ts";
import { addHost } from "./commands/cluster/host.ts";
import { addMetrics } from "./commands/cluster/metrics.ts";
import { addNatsConfig } from "./commands/cluster/nats-config.ts";
import { addTop } from "./commands/cluster/top.ts";
import { addUp } from "./commands/cluster/up.ts";
import { addCancel } from "./commands/runs/cancel.ts";
import { addEvents } from "./commands/runs/events.ts";
import { addLogs } from "./commands/runs/logs.ts";
import { addLs } from "./commands/runs/ls.ts";
import { addPause } from "./commands/runs/pause.ts";
import { addResume } from "./commands/runs/resume.ts";
import { addScale } from "./commands/runs/scale.ts";
import { addStatus } from "./commands/runs/status.ts";
import { addSubmit } from "./commands/runs/submit.ts";
import { addBuildNative } from "./commands/setup/build-native.ts";
import { addCompletion } from "./commands/setup/completion.ts";
import { addDemo } from "./commands/train/demo.ts";
import { addGenerate } from "./commands/train/generate.ts";
import { addPlan } from "./commands/train/plan.ts";
import { addSchema } from "./commands/train/schema.ts";
import { addSweep } from "./commands/train/sweep.ts";
import { addTrain } from "./commands/train/train.ts";
import { exitCodeHelp } from "./support/arguments.ts";
import { exitCodeOf, reportFailure, tellFailure } from "./support/failure.ts";

// `osiris … | head` closes the pipe while we write.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  process.exit(error.code === "EPIPE" ? 0 : 1);
});

const program = new Command("osiris")
  .description("Trains deep-learning recommendation models on supervised actors.")
  .version(packageVersion())
  .exitOverride()
  .configureOutput({
    outputError: (text, write) => write(text.replace(/^error: /, "osiris: ")),
  })
  .showHelpAfterError("(`osiris help <command>` tells more)")
  .addHelpText("after", exitCodeHelp);

const commands = [
  addDemo,
  addTrain,
  addUp,
  addHost,
  addSubmit,
  addSweep,
  addLs,
  addStatus,
  addTop,
  addLogs,
  addEvents,
  addPause,
  addResume,
  addCancel,
  addScale,
  addDoctor,
  addGenerate,
  addEval,
  addMetrics,
  addNatsConfig,
  addPlan,
  addTable,
  addCheckpoint,
  addVerify,
  addSchema,
  addChaos,
  addBuildNative,
  addCompletion,
];
for (const add of commands) add(program);

try {
  await program.parseAsync();
} catch (error) {
  tellFailure(error, process.argv.includes("--verbose"));
  if (process.argv.includes("--json")) reportFailure(error);
  process.exitCode = exitCodeOf(error);
}
