// The command line as a function, with one file for each command. A command sets the exit code of
// the process, or throws the error that it failed with.

import { Command } from "commander";
import { addMetrics } from "../packages/dashboard/commands/metrics.ts";
import { addReport } from "../packages/dashboard/commands/report.ts";
import { addExport } from "../packages/formats/commands/export.ts";
import { addImport } from "../packages/formats/commands/import.ts";
import { addTable } from "../packages/formats/commands/table.ts";
import { addClusterSessions } from "../packages/ingest/commands/cluster-sessions.ts";
import { addIngest } from "../packages/ingest/commands/ingest.ts";
import { addInit } from "../packages/ingest/commands/init.ts";
import { addWarehouse } from "../packages/ingest/commands/warehouse.ts";
import { addPredict } from "../packages/serve/commands/predict.ts";
import { addServe } from "../packages/serve/commands/serve.ts";
import { offerLearnedSearch } from "../packages/sharding/commands/learned-search.ts";
import { addSimulateCluster } from "../packages/what-if/commands/simulate-cluster.ts";
import { packageVersion } from "../src/ports/entry-file.ts";
import { addChaos } from "./commands/chaos/chaos.ts";
import { addCalibrate } from "./commands/checkpoints/calibrate.ts";
import { addCheckpoint } from "./commands/checkpoints/checkpoint.ts";
import { addEval } from "./commands/checkpoints/eval.ts";
import { addHistory } from "./commands/checkpoints/history.ts";
import { addVerify } from "./commands/checkpoints/verify.ts";
import { addDoctor } from "./commands/cluster/doctor.ts";
import { addDppWorker } from "./commands/cluster/dpp-worker.ts";
import { addHost } from "./commands/cluster/host.ts";
import { addNatsConfig } from "./commands/cluster/nats-config.ts";
import { addTop } from "./commands/cluster/top.ts";
import { addUp } from "./commands/cluster/up.ts";
import { addCancel, addPause, addResume, addScale } from "./commands/runs/control.ts";
import { addEvents } from "./commands/runs/events.ts";
import { addLogs } from "./commands/runs/logs.ts";
import { addLs } from "./commands/runs/ls.ts";
import { addReader } from "./commands/runs/reader.ts";
import { addShard, addTier } from "./commands/runs/shard.ts";
import { addStatus } from "./commands/runs/status.ts";
import { addSubmit } from "./commands/runs/submit.ts";
import { addTrace } from "./commands/runs/trace.ts";
import { addBuildNative } from "./commands/setup/build-native.ts";
import { addCompletion } from "./commands/setup/completion.ts";
import { addCache } from "./commands/train/cache.ts";
import { addDemo } from "./commands/train/demo.ts";
import { addGenerate } from "./commands/train/generate.ts";
import { addPlan } from "./commands/train/plan.ts";
import { addSchema } from "./commands/train/schema.ts";
import { addSweep } from "./commands/train/sweep.ts";
import { addTrain } from "./commands/train/train.ts";
import { addTransform } from "./commands/train/transform.ts";
import { exitCodeHelp } from "./support/arguments.ts";
import { exitCodeOf, exitCodes, printFailure, reportFailure } from "./support/failure.ts";

const commands = [
  addInit,
  addDemo,
  addTrain,
  addUp,
  addHost,
  addDppWorker,
  addSubmit,
  addSweep,
  addLs,
  addStatus,
  addTop,
  addLogs,
  addEvents,
  addTrace,
  addReport,
  addPause,
  addResume,
  addCancel,
  addScale,
  addShard,
  addTier,
  addReader,
  addDoctor,
  addGenerate,
  addTransform,
  addIngest,
  addWarehouse,
  addClusterSessions,
  addEval,
  addPredict,
  addCalibrate,
  addExport,
  addServe,
  addImport,
  addMetrics,
  addNatsConfig,
  addPlan,
  addSimulateCluster,
  addTable,
  addCheckpoint,
  addHistory,
  addCache,
  addVerify,
  addSchema,
  addChaos,
  addBuildNative,
  addCompletion,
];

/**
 * Runs `osiris` with these arguments, as a shell passes them. Resolves to the exit code; errors are
 * printed on stderr.
 */
export async function osiris(args: readonly string[]): Promise<number> {
  process.exitCode = exitCodes.done;
  offerLearnedSearch();
  try {
    await programOf().parseAsync(args, { from: "user" });
  } catch (error) {
    printFailure(error, args.includes("--verbose"));
    if (args.includes("--json")) reportFailure(error);
    process.exitCode = exitCodeOf(error);
  }
  return Number(process.exitCode);
}

function programOf(): Command {
  const program = new Command("osiris")
    .description("Trains deep-learning recommendation models on supervised actors.")
    .version(packageVersion())
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, "osiris: ")),
    })
    .showHelpAfterError("(`osiris help <command>` explains a command)")
    .addHelpText("after", exitCodeHelp);
  for (const add of commands) add(program);
  return program;
}
