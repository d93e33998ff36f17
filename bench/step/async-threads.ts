// Asynchronous training on threads, over an embedded broker, as the actors of a run start them:
// trainers with their readers, sparse servers and the dense server.

import type { ServerReport } from "../../actors/threads/asynchronous/server-program.ts";
import {
  type TrainerShape,
  trainerShapeOf,
} from "../../actors/threads/asynchronous/trainer-shape.ts";
import { prepareData } from "../../actors/threads/data/prepare-data.ts";
import { sharedSpec } from "../../actors/threads/generation-memory.ts";
import { type GenerationSpec, generationSpecOf } from "../../actors/threads/generation-spec.ts";
import { threadFile } from "../../actors/threads/thread-file.ts";
import type { ThreadTask } from "../../actors/threads/thread-program.ts";
import type {
  ReachedWindow,
  ServerCommand,
  TrainerCommand,
  TrainerReport,
  TrainerWindow,
} from "../../src/asynchronous/parameter-servers.ts";
import { serversOf } from "../../src/asynchronous/row-shards.ts";
import { createServerMemory, updatesOf, wakeServer } from "../../src/asynchronous/server-memory.ts";
import { abortTrainer, createTrainerMemory } from "../../src/asynchronous/trainer-memory.ts";
import { RemoteError } from "../../src/errors/errors.ts";
import { ringDoorbell } from "../../src/exchange/cells.ts";
import { asynchronousOf } from "../../src/job/check-asynchronous.ts";
import { type JobSpec, jobIdentity } from "../../src/job/job.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { type Thread, workerLauncher } from "../../src/ports/launcher.ts";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import { startBrokerThread } from "../../src/wire/broker/broker-thread.ts";
import type { Manifest } from "../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../storage/checkpoints/store/open-store.ts";
import type { SavedPart } from "../../storage/checkpoints/store/part-writer.ts";

export interface AsyncThreads extends AsyncDisposable {
  readonly spec: GenerationSpec;
  readonly shape: TrainerShape;
  readonly arithmetic: string;
  /** Trains a window; resolves to the answers of all threads of all trainers. */
  run(window: TrainerWindow): Promise<ReachedWindow[]>;
  evaluate(part: "evaluation" | "test"): Promise<Metrics | null>;
  /** The parts of a checkpoint, of all servers. */
  save(cut: number): Promise<SavedPart[]>;
  /** Pushes applied by all sparse servers, and exchanges of the dense server. */
  updates(): { readonly pushes: number; readonly exchanges: number };
}

/** A thread whose reports are taken one by one. */
interface Seat<Command, Report> {
  ask(command: Command): Promise<Report>;
  readonly first: Promise<Report>;
  readonly thread: Thread<Command, Report>;
}

/** Starts all threads; `manifest`: the checkpoint that they continue from. */
export async function startAsyncThreads(
  job: JobSpec,
  trainers: number,
  manifest?: Manifest,
): Promise<AsyncThreads> {
  const { directory } = job.checkpoint;
  const store = openStore({ directory, jobIdentity: jobIdentity(job), jobText: "{}" });
  const { generation } = store.beginGeneration();
  const { statistics: _, goOn: __, ...plan } = await prepareData(job, realDisk, () => {});
  const spec = generationSpecOf({
    ...{ scope: { run: "bench", generation }, job, hosts: [{ host: 0, devices: trainers }], plan },
    ...{ step: manifest?.cut ?? 0, latest: manifest, sliceCounts: undefined, network: {} },
  });
  const broker = await startBrokerThread();
  const shape = trainerShapeOf(spec);
  const head = { run: spec.run, generation, devices: trainers };
  const shared = { spec: sharedSpec(spec) };
  const token = typeof broker.auth === "object" && "token" in broker.auth ? broker.auth.token : "";
  const reach = { cluster: "bench", connection: { servers: broker.url, token } };
  const serverMemory = Array.from(
    { length: 1 + serversOf(asynchronousOf(job), 1, trainers) },
    () => {
      return { ...createServerMemory(), ...shared };
    },
  );
  const servers = serverMemory.map((memory, i) => {
    const program = i === 0 ? ("dense" as const) : ("sparse" as const);
    const task = { program, spec: head, memory, index: Math.max(0, i - 1), ...reach };
    return seat<ServerCommand, ServerReport>(task, () => wakeServer(memory));
  });
  const [ready] = await Promise.all(servers.map(({ first }) => first));
  const memories = Array.from({ length: trainers }, () => {
    return { ...createTrainerMemory(shape.layout, shape.size), ...shared };
  });
  const { fromStep } = spec;
  const threads = memories.flatMap((memory, index) => {
    const own = { spec: head, memory, index, fromStep };
    const reader = seat<TrainerCommand, TrainerReport>({ program: "samples", ...own }, () => {});
    const trained = Array.from({ length: shape.layout.ring.devices }, (_, thread) => {
      const wake = () => ringDoorbell(new Int32Array(memory.words), thread);
      return seat<TrainerCommand, TrainerReport>(
        { program: "trainer", ...own, thread, ...reach },
        wake,
      );
    });
    return [{ reader, trained }];
  });
  const trained = threads.flatMap((own) => own.trained);
  await Promise.all([...threads.map(({ reader }) => reader.first), ...trained.map((s) => s.first)]);
  return {
    ...{ spec, shape, arithmetic: ready?.type === "ready" ? ready.arithmetic : "" },
    async run(window) {
      const reports = await Promise.all(trained.map((s) => s.ask({ type: "run", ...window })));
      return reports.flatMap((report) => (report.type === "reached" ? [report] : []));
    },
    async evaluate(part) {
      const report = await trained[0]?.ask({ type: "evaluate", part });
      return report?.type === "evaluated" ? report.metrics : null;
    },
    async save(cut) {
      const reports = await Promise.all(servers.map((s) => s.ask({ type: "save", cut })));
      return reports.flatMap((report) => (report.type === "saved" ? report.parts : []));
    },
    updates() {
      const [exchanges = 0, ...pushes] = serverMemory.map(updatesOf);
      return { exchanges, pushes: pushes.reduce((sum, one) => sum + one, 0) };
    },
    async [Symbol.asyncDispose]() {
      for (const memory of memories) abortTrainer(memory);
      for (const one of servers) void one.ask({ type: "end" }).catch(() => {});
      const all = [...threads.flatMap((own) => [own.reader, ...own.trained]), ...servers];
      await Promise.all(all.map(({ thread }) => thread.ended));
      await broker.close();
    },
  };
}

function seat<Command, Report>(task: ThreadTask, wake: () => void): Seat<Command, Report> {
  const thread = workerLauncher.start<Command, Report>(threadFile, task, task.program);
  const waiting: { resolve(report: Report): void; reject(error: unknown): void }[] = [];
  const next = () =>
    new Promise<Report>((resolve, reject) => {
      waiting.push({ resolve, reject });
    });
  const first = next();
  first.catch(() => {});
  thread.onReport((report) => waiting.shift()?.resolve(report));
  thread.onObservation(() => {});
  void thread.ended.then((end) => {
    const error = end.kind === "failed" ? new RemoteError(end.error) : new Error(end.kind);
    for (const { reject } of waiting.splice(0)) reject(error);
  });
  return {
    thread,
    first,
    ask(command) {
      const answer = next();
      thread.send(command);
      wake();
      return answer;
    },
  };
}
