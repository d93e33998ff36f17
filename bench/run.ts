// The benches' door: `npm run bench -- train --config a --batch 2048 --devices 2 --json`.

import { Command, InvalidArgumentError, Option } from "commander";
import { configurationNames } from "./configurations.ts";
import { benchExchange, type ExchangeBenchOptions } from "./exchange/exchange.bench.ts";
import { benchKernels, type KernelsBenchOptions } from "./kernels/kernels.bench.ts";
import { benchTiers, type TiersBenchOptions } from "./memory/tiers.bench.ts";
import { benchPlanner, type PlannerBenchOptions } from "./planner/planner.bench.ts";
import { printReport } from "./report.ts";
import { benchJobs, type JobsBenchOptions } from "./service/jobs.bench.ts";
import {
  benchObservability,
  type ObservabilityBenchOptions,
} from "./service/observability.bench.ts";
import { benchBytes, benchCuts, type RecoveryBenchOptions } from "./service/recovery.bench.ts";
import { benchThreads } from "./service/threads.bench.ts";
import { type AccuracyBenchOptions, benchAccuracy } from "./step/accuracy.bench.ts";
import { type AllocationBenchOptions, benchAllocation } from "./step/allocation.bench.ts";
import { benchDedup, type DedupBenchOptions } from "./step/dedup.bench.ts";
import { benchPeers, type PeersBenchOptions } from "./step/peers.bench.ts";
import { benchScaling, type ScalingBenchOptions } from "./step/scaling.bench.ts";
import { benchTrain, type TrainBenchOptions } from "./step/train.bench.ts";

const program = new Command("bench").description("Measures Osiris on this machine.");

program
  .command("recovery")
  .description("what checkpoints cost: standing still, processor time, and bytes of each policy")
  .option("--rounds <count>", "cuts that are timed", positive, 3)
  .option("--changed <share>", "rows that change between them", Number, 0.26)
  .option("--json", "one last line for machines")
  .action(async (options: RecoveryBenchOptions & { json?: boolean }) => {
    const rows = [...(await benchCuts(options)), ...(await benchBytes())];
    printReport("recovery", rows, options.json === true);
  });

program
  .command("observability")
  .description("processor time of metrics, traces and logs over that of training")
  .option("--rounds <count>", "rounds of each", positive, 9)
  .option("--json", "one last line for machines")
  .action(async (options: ObservabilityBenchOptions & { json?: boolean }) => {
    printReport("observability", await benchObservability(options), options.json === true);
  });

program
  .command("train")
  .description("samples/s of whole training steps: median, 10th and 90th percentile")
  .addOption(
    new Option("--config <name>", "configuration, see bench/README.md")
      .choices(configurationNames)
      .default("a"),
  )
  .option("--batch <samples>", "samples of a batch", positive, 2048)
  .option("--devices <count>", "device threads", positive, 2)
  .addOption(
    new Option("--optimizer <kind>", "optimizer of tables (and of dense layers)")
      .choices(["sgd", "adagrad", "rowWiseAdagrad", "adam"])
      .default("sgd"),
  )
  .addOption(
    new Option("--arithmetic <kind>", "kernels")
      .choices(["auto", "native", "reference"])
      .default("auto"),
  )
  .addOption(
    new Option("--precision <kind>", "what dense layers multiply")
      .choices(["float32", "bfloat16"])
      .default("float32"),
  )
  .option("--seconds <seconds>", "how long to measure", positive, 8)
  .option("--json", "end with one line for machines", false)
  .action(async (options: TrainBenchOptions & { json: boolean }) => {
    printReport("train", [await benchTrain(options)], options.json);
  });

program
  .command("kernels")
  .description("each kernel beside its limit, measured in the same run")
  .option("--batch <samples>", "samples of a batch", positive, 2048)
  .option("--table-gib <size>", "gibibytes of the table that rows are read from", positive, 2)
  .option("--only <prefix>", "only rows whose names begin with this: gemm.bf16", "")
  .option("--json", "end with one line for machines", false)
  .action(async (options: KernelsBenchOptions & { json: boolean }) => {
    printReport("kernels", await benchKernels(options), options.json);
  });

program
  .command("accuracy")
  .description("what reduced precisions cost in log loss on generated samples, beside float32")
  .option("--samples <count>", "samples of the one pass", positive, 1_000_000)
  .option("--seeds <count>", "models, each with samples of its own", positive, 5)
  .option("--first <seed>", "the first of the seeds, to do some and then others", positive, 1)
  .option("--json", "end with one line for machines", false)
  .action(async (options: AccuracyBenchOptions & { json: boolean }) => {
    printReport("accuracy", await benchAccuracy(options), options.json);
  });

program
  .command("peers")
  .description("whole steps beside PyTorch's, in alternation in the same run, with their targets")
  .addOption(new Option("--config <names...>", "only these").choices(configurationNames))
  .option("--batch <samples>", "only this batch", positive)
  .addOption(new Option("--optimizer <kind>", "only this").choices(["sgd", "rowWiseAdagrad"]))
  .addOption(new Option("--precision <kind>", "only this").choices(["float32", "bfloat16"]))
  .option("--rounds <count>", "processes of each, in turn", positive, 3)
  .option("--seconds <seconds>", "how long each measures in a round", positive, 3)
  .option("--python <path>", "a Python that has torch")
  .option("--script <path>", "another program of the peer, of the same command line")
  .option("--json", "end with one line for machines", false)
  .action(async (options: PeersBenchOptions & { json: boolean }) => {
    const rows = await benchPeers(options);
    if (rows.length === 0)
      program.error("The table of targets (docs/performance.md) has no such cell.");
    printReport("peers", rows, options.json);
  });

program
  .command("allocation")
  .description("bytes that a steady step allocates, and the longest garbage collection")
  .addOption(
    new Option("--config <name>", "configuration, see bench/README.md")
      .choices(configurationNames)
      .default("a"),
  )
  .option("--devices <count>", "device threads", positive, 2)
  .option("--steps <count>", "steps of each batch size", positive, 1000)
  .option("--json", "end with one line for machines", false)
  .action(async (options: AllocationBenchOptions & { json: boolean }) => {
    printReport("allocation", await benchAllocation(options), options.json);
  });

program
  .command("exchange")
  .description("bytes a second of the collectives: shared memory, the wire, and both")
  .option("--only <prefix>", "only rows whose names begin with this: wire.allToAll", "")
  .option("--nats <url>", "a NATS server for the wire; left out: the embedded broker")
  .option("--json", "end with one line for machines", false)
  .action(async (options: ExchangeBenchOptions & { json: boolean }) => {
    printReport("exchange", await benchExchange(options), options.json);
  });

program
  .command("scaling")
  .description("two devices beside one, depth 3 beside depth 1, predicted beside measured plans")
  .option("--only <prefix>", "only rows whose names begin with this: weak.a", "")
  .option("--rounds <count>", "of each, in turn", positive, 5)
  .option("--seconds <seconds>", "how long each measures in a round", positive, 3)
  .option("--json", "end with one line for machines", false)
  .action(async (options: ScalingBenchOptions & { json: boolean }) => {
    printReport("scaling", await benchScaling(options), options.json);
  });

program
  .command("jobs")
  .description("how long until a job is acknowledged and kept, over a real nats-server")
  .option("--clients <count>", "that submit at once", positive, 50)
  .option("--jobs <count>", "of each of them, one after the other", positive, 40)
  .option("--pause <ms>", "mean pause of a client between two; 0: none", Number, 100)
  .option("--jetstream", "over a server that has it, into which runs are copied", false)
  .option("--json", "end with one line for machines", false)
  .action(async (options: JobsBenchOptions & { json: boolean }) => {
    printReport("jobs", await benchJobs(options), options.json);
  });

program
  .command("threads")
  .description("what a thread's start costs, until its program is loaded")
  .option("--json", "end with one line for machines", false)
  .action(async (options: { json: boolean }) => {
    printReport("threads", await benchThreads(), options.json);
  });

program
  .command("dedup")
  .description("whole steps and their bytes, with tables' `dedup` beside without, in turn")
  .option("--ids <count>", "ids of a bag", positive, 20)
  .option("--zipf <exponent>", "how ids repeat; 0 is uniform", Number, 1.05)
  .option("--batch <samples>", "samples of a batch", positive, 2048)
  .option("--devices <count>", "device threads", positive, 2)
  .option("--row-wise", "tables cut by rows, over all devices", false)
  .option("--rounds <count>", "turns of each", positive, 15)
  .option("--json", "end with one line for machines", false)
  .action(async (options: DedupBenchOptions & { json: boolean }) => {
    printReport("dedup", await benchDedup(options), options.json);
  });

program
  .command("planner")
  .description("seconds to find a plan for many tables of unequal size and popularity")
  .option("--tables <count>", "tables", positive, 5000)
  .option("--devices <count>", "devices, eight to a host", positive, 128)
  .option("--json", "end with one line for machines", false)
  .action((options: PlannerBenchOptions & { json: boolean }) => {
    printReport("planner", benchPlanner(options), options.json);
  });

program
  .command("tiers")
  .description("rows that do not all lie in device memory: a cache's lookups and hits, training")
  .option("--gib <size>", "gibibytes of the memory that rows are looked up in", positive, 1)
  .option("--only <prefix>", "only rows whose names begin with this: hitrate, train.file", "")
  .option("--seconds <count>", "how long each run of training takes", positive, 5)
  .option("--rounds <count>", "how often each is run", positive, 3)
  .option("--json", "end with one line for machines", false)
  .action(async (options: TiersBenchOptions & { json: boolean }) => {
    printReport("tiers", await benchTiers(options), options.json);
  });

await program.parseAsync();

function positive(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError("Expected an integer >= 1.");
  return value;
}
