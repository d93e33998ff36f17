// Data preparation: a host builds the cache of a job's data on a reader's thread, which then
// searches a sharding plan, if one is requested; without a plan the run continues. Further threads,
// of this host and of the others, help to index files of data without a cache. A run may begin
// before the index is complete: the preparation then continues, and reports up to which step the
// run may train.
//
// Takes   host.prepare, through host.ts
// Emits   host.preparing · host.prepared; host.failed where the thread fails, or ends without a
//         data plan

import { availableParallelism } from "node:os";
import { fromCallback } from "xstate";
import { FileClaims } from "../../src/data/file-index/claims.ts";
import { idsRoom } from "../../src/data/ids-room.ts";
import {
  BuffersExceededError,
  MemoryExceededError,
  recordError,
  SizeExceededError,
} from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { shapesOf } from "../../src/model/features.ts";
import type { ShardPin } from "../../src/planner/pins.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { Launcher, Thread, ThreadEnd } from "../../src/ports/launcher.ts";
import { memoryOfProcess } from "../../src/ports/process-memory.ts";
import { atOnce } from "../../src/ports/turns.ts";
import { type RunPlan, unplanned } from "../../src/training/planning/plan-report.ts";
import type { MeasuredRun } from "../../src/training/planning/run-plan.ts";
import {
  type Address,
  type MessageEvent,
  type Network,
  openMailbox,
  type RunScope,
} from "../runtime/mailbox.ts";
import { planSearchModule } from "../threads/data/cost-files.ts";
import type { DataPart, IndexTask } from "../threads/data/index-program.ts";
import { unsearched } from "../threads/data/plan-program.ts";
import { allSteps } from "../threads/data/ready-steps.ts";
import type { GenerationLayout } from "../threads/generation-layout.ts";
import {
  createGeneration,
  type HeldByHost,
  type HostedGeneration,
  type HostLayout,
  layingOutHost,
} from "../threads/generation-memory.ts";
import {
  type DataPlan,
  type GenerationSpec,
  type HostPlace,
  hasBuddies,
} from "../threads/generation-spec.ts";
import { checkSizes, hostMemoryOf } from "../threads/host-memory.ts";
import { threadFile } from "../threads/thread-file.ts";
import type { PrepareTask } from "../threads/thread-program.ts";
import { lossOf } from "./thread-actor.ts";

export interface PreparationInput {
  readonly network: Network;
  readonly launcher: Launcher;
  readonly host: number;
  /** The received request. */
  readonly question: MessageEvent<"host.prepare">;
  /** The job in the request, validated. */
  readonly job: JobSpec;
  /** The pins in the request, validated. */
  readonly pins: readonly ShardPin[] | undefined;
  /** The run's measured plans in the request, validated. */
  readonly measured?: readonly MeasuredRun[] | undefined;
  /** Cores for threads that index files. @default those of this machine */
  readonly cores?: number;
}

/** Files without an index: further threads may claim them (src/data/file-index/claims.ts). */
interface IndexingReport {
  readonly type: "indexing";
  readonly part: DataPart;
  readonly claims: SharedArrayBuffer;
  readonly files: number;
}

/** Progress of a thread that makes caches. */
export type CacheProgress =
  | { readonly type: "preparing"; readonly fraction: number }
  | IndexingReport;

type PrepareReport =
  | CacheProgress
  | { readonly type: "prepared"; readonly plan: DataPlan }
  | { readonly type: "indexed"; readonly steps: number; readonly fraction: number }
  | { readonly type: "placed"; readonly placement: RunPlan };

/** The receiver of this host's messages. */
export const coordinator: Address = { role: "coordinator", index: 0 };

/** The actor that an incident names when the preparation fails: it runs on a reader's thread. */
const preparer = "reader:0";

/** How often the progress of a run that has begun is sent: one message may be lost. */
const tellEveryMs = 1000;

/**
 * Runs until the cache is complete or the thread has ended; then raises host.forget in the host. If
 * the run begins early, it continues until the generation ends.
 */
export const preparing = fromCallback<{ type: string }, PreparationInput>(
  ({ input, sendBack, receive }) => {
    const { network, launcher, host, question, job, pins, measured } = input;
    const { command, hosts, machines, links, hostCount } = question.body;
    const mailbox = openMailbox(network, question, { role: "host", index: host });
    const memoryBytes = memoryOf(network);
    const searchModule = planSearchModule();
    const on = { machines, links, memoryBytes };
    const planFor = hosts && { hosts, ...on, pins, measured, searchModule };
    const helpers = helpersOf(launcher, job, memoryBytes, 2, input.cores);
    let plan: DataPlan | undefined;
    let placement: RunPlan | undefined;
    let late: string | undefined;
    let forgetDeadline = () => {};
    /** The report of a search that ended without a plan, with the reason. */
    const noneOf = (end: ThreadEnd) =>
      unplanned(unsearched(late ?? recordError(lossOf(end, preparer)).message));
    const onReport = (report: PrepareReport) => {
      switch (report.type) {
        case "preparing":
          return mailbox.send(coordinator, "host.preparing", { fraction: report.fraction });
        case "indexing":
          mailbox.send(coordinator, "host.preparing", { fraction: 0, part: report.part });
          return helpers.start(report);
        case "placed":
          placement = report.placement;
          return answerEarly();
        case "indexed":
          return indexed.set(report);
        case "prepared": {
          if (answer !== undefined) return; // From the thread that only completes the index.
          plan = report.plan;
          if (planFor === undefined) return answerEarly();
          const { planning } = deadlinesOf(job);
          forgetDeadline = network.clock.after(planning, () => {
            late = `the search exceeded the deadline \`planning\` of ${planning / 1000} s`;
            thread.kill();
          });
          return;
        }
        default:
          report satisfies never;
      }
    };
    const indexed = tellingIndexed(network.clock, (body) => {
      mailbox.send(coordinator, "host.preparing", body);
    });
    /** The answer to the request, if the run begins before all files are indexed. */
    let answer: (() => void) | undefined;
    const answerEarly = () => {
      forgetDeadline();
      if (plan?.indexedSteps === undefined) return;
      answer = () => {
        mailbox.send(coordinator, "host.prepared", { command, plan, placement, memoryBytes });
      };
      answer();
    };
    receive(() => answer?.()); // The request was repeated, so its answer was lost.
    const finish = (end: ThreadEnd) => {
      if (answer !== undefined && end.kind === "finished") return;
      if (late !== undefined && plan?.indexedSteps !== undefined && answer === undefined) {
        placement = noneOf(end);
        answerEarly();
        // The killed thread also made the index: a new thread continues it.
        thread = start({ program: "prepare", job, hostCount });
        return;
      }
      if (plan !== undefined && answer === undefined) {
        if (planFor !== undefined) placement ??= noneOf(end);
        mailbox.send(coordinator, "host.prepared", { command, plan, placement, memoryBytes });
      } else {
        // An end without a data plan is a failure, even if the thread exited by itself.
        const error = recordError(lossOf(end, preparer));
        const context = "host.prepare";
        const body = { host, actor: preparer, context, error, waits: [] };
        mailbox.send(coordinator, "host.failed", body);
      }
      sendBack({ type: "host.forget", id: preparingId(question) });
    };
    let isStopped = false;
    const start = (task: PrepareTask) => {
      const started = launcher.start<never, PrepareReport>(threadFile, task, "prepare");
      started.onReport(onReport);
      void started.ended.then((end) => {
        forgetDeadline();
        helpers.kill();
        if (!isStopped) finish(end);
      });
      return started;
    };
    let thread = start({ program: "prepare", job, planFor, hostCount });
    return () => {
      isStopped = true;
      forgetDeadline();
      indexed.stop();
      helpers.kill();
      thread.kill();
    };
  },
);

/** Sends new progress of the index at most once a second, and its completion every second. */
function tellingIndexed(
  clock: Network["clock"],
  send: (body: { readonly fraction: number; readonly steps: number }) => void,
) {
  let last: { readonly fraction: number; readonly steps: number } | undefined;
  let isNew = false;
  let stop: (() => void) | undefined;
  const tell = () => {
    if (last !== undefined && (isNew || last.steps === allSteps)) send(last);
    isNew = false;
    stop = clock.after(tellEveryMs, tell);
  };
  return {
    set({ fraction, steps }: { readonly fraction: number; readonly steps: number }): void {
      [last, isNew] = [{ fraction, steps }, true];
      if (stop === undefined) tell();
    },
    stop: () => stop?.(),
  };
}

/** Most threads that index files: more would wait for the disk. */
const indexersMax = 16;
/** Memory for each: a row group, its columns and its samples. */
const indexerBytes = 2 ** 31;

/** Number of threads that index files, the one that prepares the data included. */
export function indexersFor(files: number, cores: number, memoryBytes: number): number {
  const most = Math.min(indexersMax, cores, files, Math.floor(memoryBytes / indexerBytes));
  return Math.max(1, most);
}

/**
 * The threads that help to index files, from number `first` on. One that ends gives back what it
 * had claimed.
 */
export function helpersOf(
  launcher: Launcher,
  job: JobSpec,
  memoryBytes: number,
  first = 2,
  cores = availableParallelism(),
) {
  const running = new Set<Thread<never, never>>();
  return {
    start({ part, claims, files }: Omit<IndexingReport, "type">): void {
      const threads = indexersFor(files, cores, memoryBytes);
      for (let number = first; number <= threads; number++) {
        const task: IndexTask = { program: "index", job, part, claims, thread: number };
        const thread = launcher.start<never, never>(threadFile, task, "index");
        running.add(thread);
        void thread.ended.then(() => {
          running.delete(thread);
          new FileClaims(claims, number).release(number);
        });
      }
    },
    kill(): void {
      for (const thread of running) thread.kill();
    },
  };
}

/** Id of the preparation of a request: a repeated request finds it running. */
export function preparingId(question: RunScope & { body: { command: number } }): string {
  return `${preparingsOf(question)}${question.body.command}`;
}

/** Common prefix of the ids of a generation's preparations. */
export function preparingsOf({ run, generation }: RunScope): string {
  return `preparing:${run}:${generation}:`;
}

// Checks that rows and buffers of a generation fit into the memory of their host, before any of it
// is allocated. The operating system overcommits memory and kills processes later: without this
// check a run would be killed while training, and again after each restart.

/** The memory that a host may use: its own limit, or that of this process. */
export function memoryOf({ memoryBytes }: Pick<Network, "memoryBytes">): number {
  return memoryBytes ?? memoryOfProcess();
}

/** Creates a generation on its host, if the host has the memory. @throws as `checkMemory` */
export function createWithin(
  input: Omit<HeldByHost, "memoryBytes"> & {
    readonly spec: GenerationSpec;
    readonly network: Network;
    readonly laidOut?: HostLayout | undefined;
  },
  place: HostPlace,
): HostedGeneration {
  const { spec, network } = input;
  const { laidOut = atOnce(layingOutHost(spec, place)) } = input;
  const memoryBytes = memoryOf(network);
  checkMemory(spec, laidOut.layout, place, memoryBytes);
  return createGeneration(spec, place, { ...input, memoryBytes }, laidOut);
}

/**
 * Refuses a generation that exceeds the memory of the host, or what arrays can hold. Rows that no
 * sample ever reads count too, since they are not known before training.
 * @throws MemoryExceededError naming the largest tables
 * @throws BuffersExceededError naming the feature with the most ids
 * @throws SizeExceededError naming a size, or options that ask for more than is left
 */
export function checkMemory(
  spec: GenerationSpec,
  layout: GenerationLayout,
  place: HostPlace,
  bytesMax: number = memoryOfProcess(),
): void {
  const { job, data } = spec;
  const host = `host:${place.host}`;
  const memory = hostMemoryOf(job, layout, place);
  const { tables, tableBytes, otherBytes } = memory;
  if (tableBytes > bytesMax) throw new MemoryExceededError(host, tableBytes, bytesMax, tables);
  const left = bytesMax - tableBytes - otherBytes;
  const feature = largestFeature(job, data);
  if (left < 0) {
    const needs = { ...memory, batchSize: job.data.batchSize, feature };
    throw new BuffersExceededError(host, needs, tableBytes, bytesMax);
  }
  checkSizes(job, layout, place, feature.name);
  const { undoBytes = 0, buddyBytes = 0 } = job.checkpoint;
  const wanted = undoBytes + (hasBuddies(spec) ? buddyBytes : 0);
  if (wanted <= left) return;
  const options = "`checkpoint.undoBytes` and `checkpoint.buddyBytes`";
  const what = `Bytes of ${host} that ${options} ask for`;
  throw new SizeExceededError(what, wanted, left, "lower them, or leave them out");
}

/** The feature with the most room for ids in a batch. */
function largestFeature({ data, model }: JobSpec, { idsMax, idsMean }: DataPlan) {
  const sizes = shapesOf(model).map(({ name }, i) => {
    const most = idsMax[i] ?? 0;
    const mean = Math.min(most, idsMean?.[i] ?? most);
    return { name, mean, most, room: idsRoom(data.batchSize, { mean, most }) };
  });
  const [first = { name: "", mean: 0, most: 0, room: 0 }, ...others] = sizes;
  return others.reduce((largest, one) => (one.room > largest.room ? one : largest), first);
}
