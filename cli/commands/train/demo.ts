// osiris demo: shows that failures do not change a model. Trains a model undisturbed, trains it
// again with a device or reader killed in mid-run, and compares the two models bit for bit.

import { type Command, InvalidArgumentError } from "commander";
import {
  type BreakableLauncher,
  breakableLauncher,
  Cluster,
  InvalidOptionError,
  type Run,
  type RunResult,
  temporaryHome,
} from "../../../internal.ts";
import { kernelNotice } from "../../../src/kernels/index.ts";
import { type CommonOptions, integerFrom, withCommon } from "../../support/arguments.ts";
import { type DemoData, demoData, demoJob, planByTrial } from "../../support/demo-job.ts";
import { exitCodes } from "../../support/failure.ts";
import { onInterrupt } from "../../support/interrupt.ts";
import {
  type DemoReport,
  demoLines,
  demoRecord,
  isEqual,
  stepMsOf,
} from "../../views/demo-report.ts";
import { follow, linesView, openView, type RunView, watched } from "../../views/run-view.ts";

interface DemoOptions extends CommonOptions {
  readonly data?: string;
  readonly devices: number;
  readonly kill: string;
}

export function addDemo(program: Command): void {
  const command = program
    .command("demo")
    .description(
      "train a model twice, the second time killing a device mid-run, and compare the bits",
    )
    .option("--data <FILE>", "Criteo data, tab-separated or with a header (default: generated)")
    .option("--devices <N>", "devices: threads that compute", integerFrom(1), 2)
    .option("--kill <ACTOR>", "actor to kill: device:N or reader:0", actorName, "device:1");
  withCommon(command, ["demo", "demo --data train.tsv.gz --kill reader:0", "demo --json"]).action(
    async (options: DemoOptions) => {
      checkActor(options);
      using home = temporaryHome("osiris-demo-");
      process.exitCode = await demo(options, home.path);
    },
  );
}

function actorName(text: string): string {
  if (/^(device:\d+|reader:0)$/.test(text)) return text;
  throw new InvalidArgumentError("Expected device:N or reader:0.");
}

function checkActor({ kill, devices }: DemoOptions): void {
  const [role, index] = kill.split(":");
  if (role === "device" && Number(index) >= devices) {
    const message = `Expected \`--kill\` to name one of the ${devices} devices, got \`${kill}\``;
    throw new InvalidOptionError("--kill", message);
  }
}

/** Settings of both runs. */
interface Stage {
  readonly cluster: Cluster;
  readonly threads: BreakableLauncher;
  readonly data: DemoData;
  readonly directory: string;
  readonly view: RunView;
  readonly cancellation: Cancellation;
}

/** State of Ctrl-C, which cancels the current run and prevents later ones. */
interface Cancellation {
  isAsked: boolean;
  run: Run | undefined;
}

async function demo(options: DemoOptions, directory: string): Promise<number> {
  const startedAtMs = performance.now();
  const { json: isJson = false, data: file, devices, kill } = options;
  const view = isJson ? linesView((line) => console.error(line)) : openView({ json: false });
  const cancellation: Cancellation = { isAsked: false, run: undefined };
  using _interrupt = onInterrupt(() => {
    view.say("Stopping (Ctrl-C again: at once) ...");
    cancellation.isAsked = true;
    void cancellation.run?.cancel().catch(() => {});
  });
  try {
    const { say } = view;
    const data = await demoData({ file, isSlow: kernelNotice() !== undefined, directory, say });
    await planByTrial(data, devices, directory, say);
    const threads = breakableLauncher();
    await using cluster = await Cluster.start({ devices, launcher: threads.launcher });
    const stage: Stage = { cluster, threads, data, directory, view, cancellation };
    const runs = await trainBoth(stage, kill);
    view.close();
    if (runs === undefined) return exitCodes.cancelled;
    const seconds = (performance.now() - startedAtMs) / 1000;
    const report: DemoReport = { ...runs, killed: kill, bestAuc: data.bestAuc, seconds };
    for (const line of demoLines(report)) view.say(line);
    if (isJson) console.log(JSON.stringify(demoRecord(report)));
    return isEqual(report) ? exitCodes.done : exitCodes.failed;
  } finally {
    view.close();
  }
}

type BothRuns = Omit<DemoReport, "killed" | "bestAuc" | "seconds">;

/** Trains both runs, one after the other; undefined after Ctrl-C. */
async function trainBoth(stage: Stage, kill: string): Promise<BothRuns | undefined> {
  const { view, threads } = stage;
  view.say("\nFirst, undisturbed:");
  const stepsMs: number[] = [];
  const timing = watched(view, (event) => {
    if (event.type === "run.progress") stepsMs.push(...stepMsOf(event.times));
  });
  const calm = await train(stage, "undisturbed", timing);
  if (calm === undefined) return undefined;
  if (stepsMs.length === 0) stepsMs.push(...stepMsOf(calm.times)); // Shorter than a heartbeat.
  view.say(`\nThe same training again; this time ${kill} is killed in mid-run:`);
  // By the thread itself: a short run would end before an event could reach this process.
  const step = Math.floor(calm.step / 2);
  threads.plan([{ actor: kill, generation: 1, step, point: 0, effect: "exit" }]);
  let recoverySeconds: number | undefined;
  const watching = watched(view, (event) => {
    if (event.type === "run.recovered") recoverySeconds = event.seconds;
  });
  const broken = await train(stage, "killed", watching);
  if (broken === undefined) return undefined;
  const killedAtStep = threads.isInjected(kill) ? step : undefined;
  return { calm, broken, stepsMs, killedAtStep, recoverySeconds };
}

/** Trains one run to its end; undefined where Ctrl-C ended it. */
async function train(stage: Stage, name: string, view: RunView): Promise<RunResult | undefined> {
  const { cluster, data, directory, cancellation } = stage;
  if (cancellation.isAsked) return undefined;
  const run = await cluster.submit(demoJob(data, name, directory));
  cancellation.run = run;
  const result = await follow(run, view);
  return result.status === "cancelled" ? undefined : result;
}
