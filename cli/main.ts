#!/usr/bin/env node
// osiris <command>: one file a command. A command resolves to its exit code, or throws why it
// failed.

import { Command } from "commander";
import { packageVersion } from "../index.ts";
import { exitCodeHelp } from "./arguments.ts";
import { addBuildNative } from "./build-native.ts";
import { addCancel } from "./cancel.ts";
import { addChaos } from "./chaos.ts";
import { addCheckpoint } from "./checkpoint.ts";
import { addCompletion } from "./completion.ts";
import { addDemo } from "./demo.ts";
import { addDoctor } from "./doctor.ts";
import { addEval } from "./eval.ts";
import { addEvents } from "./events.ts";
import { exitCodeOf, reportFailure, tellFailure } from "./failure.ts";
import { addGenerate } from "./generate.ts";
import { addHost } from "./host.ts";
import { addLogs } from "./logs.ts";
import { addLs } from "./ls.ts";
import { addMetrics } from "./metrics.ts";
import { addNatsConfig } from "./nats-config.ts";
import { addPause } from "./pause.ts";
import { addPlan } from "./plan.ts";
import { addResume } from "./resume.ts";
import { addScale } from "./scale.ts";
import { addSchema } from "./schema.ts";
import { addStatus } from "./status.ts";
import { addSubmit } from "./submit.ts";
import { addSweep } from "./sweep.ts";
import { addTable } from "./table.ts";
import { addTop } from "./top.ts";
import { addTrain } from "./train.ts";
import { addUp } from "./up.ts";
import { addVerify } from "./verify.ts";

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
