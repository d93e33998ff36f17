// The command line as a function, with one file for each command. A command sets the exit code of
// the process, or throws the error that it failed with.

import { Command } from "commander";
import { packageVersion } from "../src/ports/entry-file.ts";
import { exitCodeHelp } from "./support/arguments.ts";
import { exitCodeOf, exitCodes, printFailure, reportFailure } from "./support/failure.ts";

type Load = () => Promise<(program: Command) => void>;

/** The commands, in the order of the help. A process loads only the one that it runs. */
const commands: Readonly<Record<string, Load>> = {
  init: async () => (await import("../packages/ingest/commands/init.ts")).addInit,
  demo: async () => (await import("./commands/train/demo.ts")).addDemo,
  train: async () => (await import("./commands/train/train.ts")).addTrain,
  up: async () => (await import("./commands/cluster/up.ts")).addUp,
  host: async () => (await import("./commands/cluster/host.ts")).addHost,
  "dpp-worker": async () => (await import("./commands/cluster/dpp-worker.ts")).addDppWorker,
  submit: async () => (await import("./commands/runs/submit.ts")).addSubmit,
  sweep: async () => (await import("./commands/train/sweep.ts")).addSweep,
  ls: async () => (await import("./commands/runs/ls.ts")).addLs,
  status: async () => (await import("./commands/runs/status.ts")).addStatus,
  top: async () => (await import("./commands/cluster/top.ts")).addTop,
  logs: async () => (await import("./commands/runs/logs.ts")).addLogs,
  events: async () => (await import("./commands/runs/events.ts")).addEvents,
  trace: async () => (await import("./commands/runs/trace.ts")).addTrace,
  report: async () => (await import("../packages/dashboard/commands/report.ts")).addReport,
  pause: async () => (await import("./commands/runs/control.ts")).addPause,
  resume: async () => (await import("./commands/runs/control.ts")).addResume,
  cancel: async () => (await import("./commands/runs/control.ts")).addCancel,
  scale: async () => (await import("./commands/runs/control.ts")).addScale,
  shard: async () => (await import("./commands/runs/shard.ts")).addShard,
  tier: async () => (await import("./commands/runs/shard.ts")).addTier,
  reader: async () => (await import("./commands/runs/reader.ts")).addReader,
  doctor: async () => (await import("./commands/cluster/doctor.ts")).addDoctor,
  generate: async () => (await import("./commands/train/generate.ts")).addGenerate,
  transform: async () => (await import("./commands/train/transform.ts")).addTransform,
  ingest: async () => (await import("../packages/ingest/commands/ingest.ts")).addIngest,
  warehouse: async () => (await import("../packages/ingest/commands/warehouse.ts")).addWarehouse,
  "cluster-sessions": async () =>
    (await import("../packages/ingest/commands/cluster-sessions.ts")).addClusterSessions,
  eval: async () => (await import("./commands/checkpoints/eval.ts")).addEval,
  predict: async () => (await import("../packages/serve/commands/predict.ts")).addPredict,
  calibrate: async () => (await import("./commands/checkpoints/calibrate.ts")).addCalibrate,
  export: async () => (await import("../packages/formats/commands/export.ts")).addExport,
  serve: async () => (await import("../packages/serve/commands/serve.ts")).addServe,
  import: async () => (await import("../packages/formats/commands/import.ts")).addImport,
  metrics: async () => (await import("../packages/dashboard/commands/metrics.ts")).addMetrics,
  "nats-config": async () => (await import("./commands/cluster/nats-config.ts")).addNatsConfig,
  plan: async () => (await import("./commands/train/plan.ts")).addPlan,
  "simulate-cluster": async () =>
    (await import("../packages/what-if/commands/simulate-cluster.ts")).addSimulateCluster,
  table: async () => (await import("../packages/formats/commands/table.ts")).addTable,
  checkpoint: async () => (await import("./commands/checkpoints/checkpoint.ts")).addCheckpoint,
  history: async () => (await import("./commands/checkpoints/history.ts")).addHistory,
  cache: async () => (await import("./commands/train/cache.ts")).addCache,
  verify: async () => (await import("./commands/checkpoints/verify.ts")).addVerify,
  schema: async () => (await import("./commands/train/schema.ts")).addSchema,
  chaos: async () => (await import("./commands/chaos/chaos.ts")).addChaos,
  "build-native": async () => (await import("./commands/setup/build-native.ts")).addBuildNative,
  completion: async () => (await import("./commands/setup/completion.ts")).addCompletion,
};

/**
 * Runs `osiris` with these arguments, as a shell passes them. Resolves to the exit code; errors are
 * printed on stderr.
 */
export async function osiris(args: readonly string[]): Promise<number> {
  process.exitCode = exitCodes.done;
  try {
    await (await programOf(args)).parseAsync(args, { from: "user" });
  } catch (error) {
    printFailure(error, args.includes("--verbose"));
    if (args.includes("--json")) reportFailure(error);
    process.exitCode = exitCodeOf(error);
  }
  return Number(process.exitCode);
}

async function programOf([name = ""]: readonly string[]): Promise<Command> {
  const program = new Command("osiris")
    .description("Trains deep-learning recommendation models on supervised actors.")
    .version(packageVersion())
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, "osiris: ")),
    })
    .showHelpAfterError("(`osiris help <command>` explains a command)")
    .addHelpText("after", exitCodeHelp);
  for (const add of await Promise.all(loadedFor(name).map((load) => load()))) add(program);
  return program;
}

/**
 * The commands to load for `osiris NAME …`: all for the help, the completion and a misspelt name,
 * none for the version.
 */
function loadedFor(name: string): Load[] {
  if (name === "--version" || name === "-V") return [];
  const own = Object.hasOwn(commands, name) && name !== "completion" ? commands[name] : undefined;
  return [loadLearnedSearch, ...(own === undefined ? Object.values(commands) : [own])];
}

async function loadLearnedSearch(): Promise<() => void> {
  return (await import("../packages/sharding/commands/learned-search.ts")).offerLearnedSearch;
}
