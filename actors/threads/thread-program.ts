// Runs the program of a thread's task, over the ports that the thread was given. A thread loads
// only its own program: loading all of them takes three times as long. A device's thread never runs
// its event loop: it waits on its doorbell.

import type { ServerCommand, TrainerCommand } from "../../src/asynchronous/parameter-servers.ts";
import type { IndexHelp } from "../../src/data/file-index/write-index.ts";
import { GenerationAbortedError, recordError, visible } from "../../src/errors/errors.ts";
import { type Cells, nobody } from "../../src/exchange/cells.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { openKernels, useThreads } from "../../src/kernels/index.ts";
import type { Log } from "../../src/ports/log.ts";
import type { TracedStep } from "../../src/training/meters/step-trace.ts";
import type { TierCommand } from "../../storage/tiers/serve.ts";
import type { AdopterCommand, AdopterTask } from "./adopter-program.ts";
import type { SamplesTask } from "./asynchronous/samples-program.ts";
import type { ServerTask } from "./asynchronous/server-program.ts";
import type { TrainerTask } from "./asynchronous/trainer-program.ts";
import type { BridgeTask } from "./bridge-program.ts";
import type { CalibrationTask } from "./calibration-program.ts";
import type { CostProbeTask } from "./costs/cost-probe-program.ts";
import type { DataPart, IndexTask } from "./data/index-program.ts";
import type { CacheTask } from "./data/own-caches.ts";
import type { PlanRequest } from "./data/plan-program.ts";
import type { DrainWorker, WorkerTask } from "./data/worker-program.ts";
import type { DeviceCommand, DeviceReport } from "./device-program.ts";
import {
  type Generation,
  type GenerationMemory,
  openCells,
  openGeneration,
  specIn,
} from "./generation-memory.ts";
import type { SpecHead } from "./generation-spec.ts";
import type { RowsToKeep } from "./kept-rows.ts";
import type { LinkTask } from "./link-program.ts";
import type { ReaderTask } from "./reader-program.ts";
import type { ReplicaCommand } from "./replica-service.ts";
import type { StoreCall, StoreTask } from "./store-program.ts";
import type { ThreadPorts } from "./thread-ports.ts";

/** The task that a thread is started with. */
export type ThreadTask =
  | DeviceTask
  | ParticipantTask
  | ReaderTask
  | WorkerTask
  | BridgeTask
  | AdopterTask
  | CalibrationTask
  | CostProbeTask
  | LinkTask
  | PrepareTask
  | CacheTask
  | IndexTask
  | StoreTask
  | ProbeTask
  | ServerTask
  | TrainerTask
  | SamplesTask;

/** A thread that prepares the data of a job, and then searches a plan if `planFor` is given. */
export interface PrepareTask {
  readonly program: "prepare";
  readonly job: JobSpec;
  readonly planFor?: PlanRequest | undefined;
  /** Hosts that share the indexing of files. @default 1 */
  readonly hostCount?: number | undefined;
}

/** A device's thread. */
export interface DeviceTask extends GenerationTask {
  readonly program: "device";
  readonly rows: RowsToKeep;
}

/** A tier's or a writer's thread. */
export interface ParticipantTask extends GenerationTask {
  readonly program: "tier" | "writer";
}

/** A thread that takes part in a generation. */
interface GenerationTask {
  readonly spec: SpecHead;
  readonly memory: GenerationMemory;
  readonly index: number;
  /** Threads that the kernels of a device may use. @default 1 */
  readonly threads?: number;
}

/**
 * A thread that takes part in several generations, in each until it is aborted. Code compiled in
 * one generation serves the next, so that calibration measures warm steps.
 */
export interface ProbeTask {
  readonly program: "probe";
  readonly role: "device" | "reader";
  readonly index: number;
  readonly generations: readonly Pick<ParticipantTask, "spec" | "memory">[];
}

/** The task of a thread of a generation whose devices have their steps in common. */
type StepTask = Extract<ThreadTask, { readonly memory: GenerationMemory }>;

export function isStepTask(task: ThreadTask): task is StepTask {
  return "memory" in task && "progress" in task.memory;
}

/** Runs a task to its end. If the task fails, the error is reported by `ports.fail`. */
export async function runThread(task: ThreadTask, ports: ThreadPorts): Promise<void> {
  const { clock, disk, wrapCells, report } = ports;
  const log = logOf(task, ports);
  try {
    log("debug", "started");
    switch (task.program) {
      case "device":
        return await device(task, ports, log);
      case "reader":
        return await reader(task, ports);
      case "probe":
        return await probe(task, ports, log);
      case "tier": {
        const generation = openGeneration(task);
        const { spec, layout } = generation;
        const cells = wrapCells(openIdle(generation, layout.tierOf(task.index), ports));
        const kernels = openKernels(spec.job.arithmetic);
        const nextCommand = () => ports.take() as TierCommand | undefined;
        const { pause, afterPauses } = ports;
        const given = { kernels, cells, clock, disk, pause, afterPauses, nextCommand, report };
        const { runTier } = await import("./tier-program.ts");
        return await runTier(generation, task.index, given);
      }
      case "writer": {
        const generation = openGeneration(task);
        const { writerOf } = generation.layout;
        const cells = wrapCells(openIdle(generation, writerOf(task.index), ports));
        const forWriter = { cells, disk, clock, sleep: ports.sleep, report };
        const { runWriter } = await import("./writer-program.ts");
        return await runWriter(generation, task.index, forWriter);
      }
      case "worker": {
        const { runWorker } = await import("./data/worker-program.ts");
        const take = () => ports.take() as DrainWorker | undefined;
        const { sleepTurning, dial } = ports;
        return await runWorker(task, { clock, disk, sleepTurning, dial, take });
      }
      case "bridge": {
        const generation = openGeneration(task);
        const turning = { ...ports, sleep: ports.sleepTurning };
        const cells = wrapCells(openIdle(generation, generation.layout.bridge, turning));
        const { runBridge } = await import("./bridge-program.ts");
        const take = () => ports.take() as ReplicaCommand | undefined;
        const { dial, directWay } = ports;
        const given = { clock, cells, dial, directWay, log, take, report };
        return await runBridge(generation, task, given);
      }
      case "adopter": {
        const { runAdopter } = await import("./adopter-program.ts");
        const take = () => ports.take() as AdopterCommand | undefined;
        const given = { clock, disk, dial: ports.dial, take, report };
        return await runAdopter(openGeneration(task), task, given);
      }
      case "prepare": {
        const { onProgress, helpFor } = await preparingFor(task, ports);
        const { prepareData } = await import("./data/prepare-data.ts");
        const learned = await learnedCostsOf(task);
        const { heldBytesMax } = await import("../../src/data/sample-order.ts");
        const { statistics, goOn, ...plan } = await prepareData(
          task.job,
          disk,
          onProgress,
          heldBytesMax,
          helpFor,
        );
        report({ type: "prepared", plan });
        if (task.planFor !== undefined) {
          const { planOrNone } = await import("./data/plan-program.ts");
          const known = { statistics, ikjt: plan.ikjt };
          const placement = await planOrNone(
            ...([task.job, task.planFor, known, ports.constantsOf, learned] as const),
          );
          report({ type: "placed", placement });
        }
        return await goOn?.((steps, fraction) => report({ type: "indexed", steps, fraction }));
      }
      case "cache": {
        const { onProgress, helpFor } = await preparingFor(task, ports);
        const { makeCaches } = await import("./data/own-caches.ts");
        return await makeCaches(task, disk, onProgress, helpFor);
      }
      case "store": {
        const { runStoreThread } = await import("./store-program.ts");
        const take = () => ports.take() as StoreCall | undefined;
        return await runStoreThread(task, { disk, take, report });
      }
      case "index": {
        const { runIndexing } = await import("./data/index-program.ts");
        return await runIndexing(task, disk);
      }
      case "calibrate": {
        const { runCalibration } = await import("./calibration-program.ts");
        return report(await runCalibration(task, clock));
      }
      case "links": {
        const { runLinkProbe } = await import("./link-program.ts");
        return await runLinkProbe(task, ports);
      }
      case "costs": {
        const { runCostProbes } = await import("./costs/cost-probe-program.ts");
        return report(await runCostProbes(task, clock));
      }
      case "sparse":
      case "dense": {
        const { runServer } = await import("./asynchronous/server-program.ts");
        const take = () => ports.take() as ServerCommand | undefined;
        const kernels = openKernels(specIn(task.memory).job.arithmetic);
        return await runServer(task, { ...ports, kernels, take, report });
      }
      case "trainer": {
        const { runTrainer } = await import("./asynchronous/trainer-program.ts");
        const take = () => ports.take() as TrainerCommand | undefined;
        const kernels = ports.wrapKernels(openKernels(specIn(task.memory).job.arithmetic));
        return await runTrainer(task, { ...ports, kernels, take, report });
      }
      case "samples": {
        const { runSamples } = await import("./asynchronous/samples-program.ts");
        return await runSamples(task, { ...ports, report });
      }
      default:
        return task satisfies never;
    }
  } catch (error) {
    if (error instanceof GenerationAbortedError) return;
    const record = recordError(error);
    const stack = error instanceof Error ? visible(error.stack ?? "") : undefined;
    log("error", record.message, { code: record.code, stack });
    ports.fail(record);
  }
}

/** Reports the progress of a preparation, and the files that further threads may index. */
async function preparingFor(
  { job, ...task }: PrepareTask | CacheTask,
  { report, sleep, disk }: ThreadPorts,
) {
  const { indexedPart, indexStoreOf } = await import("./data/index-program.ts");
  const isIndexed = (["training", "evaluation", "test"] as const).some((part) => {
    return indexedPart(job, part) !== undefined;
  });
  const store = isIndexed ? await indexStoreOf(job, disk) : undefined;
  return {
    onProgress: (fraction: number) => report({ type: "preparing", fraction }),
    helpFor: (part: DataPart): IndexHelp => ({
      hosts: "hostCount" in task ? task.hostCount : undefined,
      store,
      start: (claims, files) => report({ type: "indexing", part, claims, files }),
      // It blocks: a wait in the event loop alone would end the thread.
      waitOn: sleep ?? ((words, at, value, ms) => Atomics.wait(words, at, value, ms)),
    }),
  };
}

const noRows: RowsToKeep = { tiles: [], undoBytes: 0 };

/** The search by learned costs that a job asks for. Refuses wrong files before data are read. */
async function learnedCostsOf({ job, planFor }: PrepareTask) {
  if (planFor === undefined || job.planner.costs === undefined) return undefined;
  const { learnedCosts } = await import("./data/cost-files.ts");
  return learnedCosts(job, planFor.hosts, planFor.searchModule);
}

async function probe(
  { role, index, generations }: ProbeTask,
  ports: ThreadPorts,
  log: Log["write"],
) {
  for (const generation of generations) {
    const task = { ...generation, index };
    try {
      if (role === "device") await device({ ...task, program: role, rows: noRows }, ports, log);
      else await reader({ ...task, program: role }, ports);
    } catch (error) {
      if (!(error instanceof GenerationAbortedError)) throw error;
    }
  }
}

async function reader(task: ReaderTask, given: ThreadPorts): Promise<void> {
  const { index, service } = task;
  // The connection is served while the thread waits.
  const ports = service === undefined ? given : { ...given, sleep: given.sleepTurning };
  const generation = openGeneration(task);
  const { devices, job } = generation.spec;
  const cells = ports.wrapCells(openIdle(generation, devices + (index % job.readers), ports));
  const { disk, clock, sleep, sleepTurning, dial } = ports;
  const traced = tracedTo(task, ports);
  const { runReader } = await import("./reader-program.ts");
  await runReader(generation, task, { cells, disk, clock, sleep, sleepTurning, dial, traced });
}

/** Writes log lines that name the thread's actor and, if it has one, its generation. */
function logOf(task: ThreadTask, ports: ThreadPorts): Log["write"] {
  const scope = scopeOf(task);
  return (level, message, fields) =>
    ports.observe({ line: { level, message, fields: { ...scope, ...fields } } });
}

function scopeOf(task: ThreadTask) {
  if (!("spec" in task)) return { actor: task.program };
  const { run, generation } = task.spec;
  return { run, generation, actor: `${task.program}:${task.index}` };
}

/** A function that reports the trace of a step to the observers. */
function tracedTo({ program, spec, index }: DeviceTask | ReaderTask, { observe }: ThreadPorts) {
  const { run, generation } = spec;
  const actor = `${program}:${index}`;
  return (traced: TracedStep) => observe({ traced: { run, generation, actor, ...traced } });
}

/** Cells of a participant that may wait forever, because other participants have deadlines. */
function openIdle(
  generation: Generation,
  participant: number,
  { clock, sleep }: Pick<ThreadPorts, "clock" | "sleep">,
): Cells {
  const deadlineMs = Number.POSITIVE_INFINITY;
  return openCells(generation, participant, { clock, deadlineMs, sleep });
}

/**
 * Share of the step deadline for which a device of a failed generation waits for the dump
 * command, and the number of polls in this time. Devices receive it one after another, and the
 * first to answer wakes the others.
 */
const partialRecoveryShare = 0.25;
const partialRecoveryWaits = 100;

async function device(task: DeviceTask, ports: ThreadPorts, log: Log["write"]): Promise<void> {
  const { index, threads = 1 } = task;
  const generation = openGeneration(task);
  const { clock, disk, sleep, wrapCells } = ports;
  const helped = useThreads(threads);
  if (helped < threads) log("warn", "the system allows fewer threads", { threads, helped });
  const { stepDeadlineMs: deadlineMs, arithmetic } = generation.spec.job;
  // Between two commands the coordinator has the deadline.
  const idle = openIdle(generation, index, ports);
  const { runDevice } = await import("./device-program.ts");
  await runDevice(generation, index, task.rows, {
    kernels: ports.wrapKernels(openKernels(arithmetic)),
    cells: wrapCells(openCells(generation, index, { clock, deadlineMs, sleep })),
    disk,
    clock,
    log,
    traced: tracedTo(task, ports),
    report: (report: DeviceReport) => ports.report(report),
    async dump() {
      const never = new Int32Array(new SharedArrayBuffer(4));
      for (let waits = 0; waits < partialRecoveryWaits; waits++) {
        for (let one = ports.take(); one !== undefined; one = ports.take()) {
          const command = one as DeviceCommand;
          if (command.type === "dump") return command;
        }
        const waitMs = (partialRecoveryShare * deadlineMs) / partialRecoveryWaits;
        if (sleep === undefined) Atomics.wait(never, 0, 0, waitMs);
        else await sleep(never, 0, 0, waitMs);
      }
      return undefined;
    },
    async nextCommand() {
      let command: DeviceCommand | undefined;
      await idle.waitUntil(
        () => "a command",
        () => {
          command = ports.take() as DeviceCommand | undefined;
          return command !== undefined;
        },
        nobody,
      );
      return command ?? { type: "end" };
    },
  });
}
