// Clusters in virtual time, on the real disk: the actor trees, thread programs and kernels are
// real; clock, network and threads are simulated (chaos/simulation). A run costs a tenth of one on
// real threads, and a busy machine does not disturb its deadlines.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../../actors/client/client.ts";
import { Leader } from "../../../actors/cluster/leader.ts";
import { joiningTree } from "../../../actors/host/joining.ts";
import { Membership } from "../../../actors/host/membership.ts";
import { modulesOf } from "../../../actors/jobs/allowed-paths.ts";
import { Registry } from "../../../actors/run/state/registry.ts";
import type { Incident } from "../../../actors/runtime/incident.ts";
import { clusterScope, type Network, orderFault } from "../../../actors/runtime/mailbox.ts";
import { progressOver } from "../../../actors/threads/generation-memory.ts";
import { isStepTask, type ParticipantTask } from "../../../actors/threads/thread-program.ts";
import type { CommandFault } from "../../../chaos/faults/breakable-launcher.ts";
import { SimulatedMachine } from "../../../chaos/simulation/machine.ts";
import { SimulatedProcess } from "../../../chaos/simulation/process.ts";
import { type SimulatedThread, SimulatedThreads } from "../../../chaos/simulation/threads.ts";
import { World } from "../../../chaos/simulation/world.ts";
import type { ThreadFault } from "../../../internal.ts";
import type { Cells } from "../../../src/exchange/cells.ts";
import { createLinkNetwork, type LinkFaults } from "../../../src/exchange/links/simulated-links.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { type Disk, type DiskFile, realDisk } from "../../../src/ports/disk.ts";
import type { Launcher, Thread } from "../../../src/ports/launcher.ts";
import { encodeBody } from "../../../src/wire/messages/body.ts";
import { eventsSubject } from "../../../src/wire/messages/subjects.ts";
import {
  createMemoryBroker,
  type MemoryFaults,
} from "../../../src/wire/transports/memory-transport.ts";
import { smallJobs } from "./clusters.ts";
import type { EitherCluster, EitherOptions, JoinedHost } from "./either-cluster.ts";

/** Options of `startVirtualCluster`. */
interface Options extends EitherOptions {
  /** Keeps measured links. @default links are not measured */
  readonly links?: Network["links"];
  /** Largest frame of the broker. @default 1 MiB */
  readonly frameBytesMax?: number;
  /** Faults of the broker, besides delays of a millisecond, and of direct links. @default none */
  readonly faults?: readonly MemoryFaults[];
  readonly linkFaults?: LinkFaults;
  /** The duration of a disk sync of an actor's thread (`writer:0`). @default 0 */
  readonly syncMsOf?: (actor: string) => number;
  /** The duration of a disk read. @default 0 */
  readonly readMsOf?: (actor: string) => number;
  /** The duration of each store to cells by a thread of an actor. @default 0 */
  readonly storeMsOf?: (actor: string) => number;
  /** The error code with which the disk refuses a write of a thread at a time; undefined: none. */
  readonly refusalOf?: (actor: string, atMs: number) => string | undefined;
}

const [name, brokerAwayMs] = ["c1", 500] as const;
const turn = () => new Promise<void>((resume) => void setImmediate(resume));
/** Durations with which a step of the small job takes about 20 ms, and a thread 20 ms to start. */
const speed = { turnMs: 1, startMs: 20 } as const;

/** Starts a cluster whose own process has `devices` devices. */
export function startVirtualCluster(devices = 2, options: Options = {}): EitherCluster {
  const { minDevices = Math.max(1, devices), faultsAllowed = true } = options;
  const { over = (launcher) => launcher } = options;
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  const world = new World(1);
  const broker = createMemoryBroker({
    clock: world.clock,
    seed: 1,
    frameBytesMax: options.frameBytesMax ?? 1024 * 1024,
    onError: (error) => world.note("broker", String(error)),
  });
  broker.setFaults({ delayMs: [0, 1] }, ...(options.faults ?? []));
  const machine = machineOf(world, options);
  const threads = new SimulatedThreads(machine, speed);
  const breaks = breaksOf(world, threads, options.storeMsOf ?? (() => 0));
  const links = createLinkNetwork({ clock: world.clock, seed: 1, faults: options.linkFaults });
  const surroundings = { world, broker, links, machine };
  const incidents: Incident[] = [];
  const ownModels = new Set<string>();
  const isLinked = options.linkFaults !== undefined;
  const root = new SimulatedProcess("leader", surroundings, { serial: 0, isLinked });
  const network = { ...root.network(root.connect()), faultsAllowed, links: options.links };
  const membership = new Membership({
    ...{ minDevices, joinDeadlineMs: 60_000, ...announced },
    own: devices === 0 ? undefined : { host: 0, devices, machine: "leader", pid: 1 },
  });
  const start = () =>
    new Leader({
      ...{ network, devices, membership },
      launcher: over(breaks.launcherOver(threads.launcherOf(root))),
      registry: registryOf(network),
      access: { roots: {}, tenants: {}, ownModels },
      onIncident: (incident) => incidents.push(incident),
    });
  let leader: Leader | undefined;
  root.enter(() => {
    leader = start();
  });
  const user = new SimulatedProcess("client", surroundings);
  const client = new Client({ transport: user.connect(), cluster: name, clock: user.clock });
  const processes = [root, user];
  const driven = drive(world);
  return {
    cluster: {
      client,
      submit(job) {
        for (const path of modulesOf(resolveJob(job))) ownModels.add(path);
        return driven.unlessItCrashes(client.submit(job));
      },
      async close() {
        root.enter(() => leader?.stop());
        while (threads.running.length > 0) await turn();
      },
    },
    threads: breaks,
    incidents,
    job: smallJobs(directory),
    async join(joining) {
      const serial = processes.length;
      const process = new SimulatedProcess(`host${serial}`, surroundings, { serial });
      processes.push(process);
      return startHost(process, threads, { devices: joining, serial });
    },
    async throwIn({ role, index = 0, scope = clusterScope }, reason) {
      const from = user.network(user.connect());
      await driven.unlessItCrashes(orderFault(from, scope, { role, index }, reason));
    },
    async cutBroker() {
      for (const process of processes) broker.cut(process.name);
      world.clock.after(brokerAwayMs, () => broker.heal());
    },
    async [Symbol.asyncDispose]() {
      for (const process of processes) process.kill();
      await driven.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

const announced = { arithmetic: openKernels("auto").arithmetic, version: "1.0.0" };

function registryOf({ transport }: Network): Registry {
  return new Registry("r", (event, tenant) => {
    const { payload, headers } = encodeBody(event, "application/json");
    transport.publish(eventsSubject(name, event.run, tenant), payload, { headers });
  });
}

function startHost(
  process: SimulatedProcess,
  threads: SimulatedThreads,
  { devices, serial }: { readonly devices: number; readonly serial: number },
): JoinedHost {
  let isLeaving = false;
  let gone = () => {};
  const ended = new Promise<void>((resolve) => {
    gone = resolve;
  });
  process.onDeath(gone);
  process.enter(() => {
    const tree = joiningTree({
      network: process.network(process.connect()),
      launcher: threads.launcherOf(process),
      announcement: () => ({
        ...{ key: 1000 + serial, devices, ...announced },
        ...{ machine: process.name, pid: 1, isLeaving },
        ...(isLeaving ? { drain: { reason: "it was asked to leave", seconds: 25 } } : {}),
      }),
      onMayLeave: () => process.kill(),
      onHost() {},
      onIncident() {},
    });
    tree.subscribe({ error: () => process.kill() });
    tree.start();
  });
  return {
    kill: () => process.kill(),
    leave() {
      isLeaving = true;
    },
    ended,
  };
}

/** Advances virtual time until `close`. */
function drive(world: World) {
  let isClosed = false;
  let fail: (error: unknown) => void = () => {};
  const crashed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  crashed.catch(() => {});
  const over = (async () => {
    while (!isClosed && world.crash === undefined) {
      await world.run(() => isClosed, Number.POSITIVE_INFINITY);
    }
    if (world.crash !== undefined) fail(new Error(world.crash.where, { cause: world.crash.error }));
  })();
  return {
    unlessItCrashes: <Value>(value: Promise<Value>) => Promise.race([value, crashed]),
    async close() {
      isClosed = true;
      await over;
      if (world.crash !== undefined) throw world.crash.error;
    },
  };
}

// The disk ----

/** A machine with the real disk: dead processes and threads cannot change it. */
function machineOf(world: World, options: Options): SimulatedMachine {
  const { syncMsOf = () => 0, readMsOf = () => 0, refusalOf = () => undefined } = options;
  const machine = new SimulatedMachine(world, 1);
  const diskOf: SimulatedMachine["diskOf"] = (process, owner) => {
    const act = <Result>(run: () => Result): Result => {
      if (process.isOver || owner.isOver) throw new Error(`${owner.id} has exited`);
      return run();
    };
    const mayWrite = (path: string) => {
      const code = refusalOf(actorOf(owner.id), owner.nowMs());
      if (code === undefined) return;
      const error = new Error(`${code}: write '${path}'`);
      throw Object.assign(error, { code, syscall: "write", path });
    };
    const readFrom = (file: DiskFile, bytes: Uint8Array, offset: number) =>
      act(() => {
        owner.spend(readMsOf(actorOf(owner.id)));
        return file.read(bytes, offset);
      });
    // Power never fails: a sync takes time, and need not reach the disk.
    const sync = () => act(() => owner.spend(syncMsOf(actorOf(owner.id))));
    // Nothing waits for real time: calls complete at once.
    const fileOf = (file: DiskFile): DiskFile => ({
      path: file.path,
      write: (bytes, offset) =>
        act(() => {
          mayWrite(file.path);
          file.write(bytes, offset);
        }),
      read: (bytes, offset) => readFrom(file, bytes, offset),
      readLater: async (bytes, offset) => readFrom(file, bytes, offset),
      size: () => file.size(),
      truncate: (size) => act(() => file.truncate(size)),
      sync,
      synced: async () => sync(),
      close: () => file.close(),
    });
    const disk: Disk = {
      ...realDisk,
      writer: owner.id.replaceAll("/", "-"),
      open: (path, mode) => fileOf(act(() => realDisk.open(path, mode))),
      makeDirectory: (path) => act(() => realDisk.makeDirectory(path)),
      rename: (from, to) => act(() => realDisk.rename(from, to)),
      remove: (path) => act(() => realDisk.remove(path)),
      syncDirectory: sync,
    };
    return disk;
  };
  return Object.assign(machine, { diskOf });
}

/** The actor of a thread: `leader-0/device-1` belongs to `device:1`. */
function actorOf(thread: string): string {
  return thread.slice(thread.indexOf("/") + 1).replace("-", ":");
}

// Threads with faults ----

function breaksOf(world: World, threads: SimulatedThreads, storeMsOf: (actor: string) => number) {
  let planned: readonly (ThreadFault | CommandFault)[] = [];
  let started = 0;
  const paused = new Map<string, SimulatedThread>();
  const find = (actor: string) => threads.running.find((one) => actorOf(one.name) === actor);
  const inject = (fault: ThreadFault, thread: SimulatedThread) => {
    if (fault.effect === "exit") return thread.kill();
    thread.stop();
    if (fault.effect !== "pause") return;
    paused.set(fault.actor, thread);
    world.clock.after(fault.pauseMs, () => thread.goOn());
  };
  threads.cellsOver = (cells, thread, task) => {
    const actor = actorOf(thread.name);
    const storeMs = storeMsOf(actor);
    const slowed = storeMs === 0 ? cells : passing(cells, { store: () => thread.spend(storeMs) });
    if (!isStepTask(task)) return slowed;
    const { generation } = task.spec;
    const fault = planned.find((one) => one.actor === actor && one.generation === generation);
    if (fault === undefined || "command" in fault) return slowed;
    planned = planned.filter((one) => one !== fault);
    return breaking(slowed, { fault, task, thread, inject });
  };
  return {
    kill(actor: string) {
      const thread = find(actor);
      thread?.kill();
      return thread !== undefined;
    },
    goOn(actor: string) {
      paused.get(actor)?.goOn();
      paused.delete(actor);
    },
    running: () => threads.running.map((one) => actorOf(one.name)),
    started: () => started,
    plan(faults: readonly (ThreadFault | CommandFault)[]) {
      planned = faults;
    },
    /** Counts the threads, and ends those with a planned fault at a command. */
    launcherOver: (launcher: Launcher): Launcher => ({
      start<Command, Report>(entry: URL, data: unknown, thread: string) {
        const inner = launcher.start<Command, Report>(entry, data, thread);
        started++;
        const { spec } = data as Partial<ParticipantTask>;
        return killedAt(inner, (type) => {
          const [now] = planned.filter(
            (one) =>
              "command" in one &&
              one.command === type &&
              one.actor === thread.replace("-", ":") &&
              one.generation === spec?.generation,
          );
          planned = planned.filter((one) => one !== now);
          return now !== undefined;
        });
      },
    }),
  };
}

/** A thread that ends at a command for which `isKilledAt` is true. */
function killedAt<Command, Report>(
  thread: Thread<Command, Report>,
  isKilledAt: (type: unknown) => boolean,
): Thread<Command, Report> {
  return {
    ended: thread.ended,
    kill: () => thread.kill(),
    onReport: (receive) => thread.onReport(receive),
    onObservation: (receive) => thread.onObservation(receive),
    send(given) {
      thread.send(given);
      if (isKilledAt((given as { readonly type?: unknown }).type)) thread.kill();
    },
  };
}

/** Cells with the fault of `chaos/faults/breaking-cells.ts`, in virtual time. */
function breaking(
  cells: Cells,
  place: {
    readonly fault: ThreadFault;
    readonly task: Pick<ParticipantTask, "spec" | "memory" | "index"> & { program: string };
    readonly thread: SimulatedThread;
    inject(fault: ThreadFault, thread: SimulatedThread): void;
  },
): Cells {
  const { fault, task, thread, inject } = place;
  const { steps } = progressOver(task.memory, task.spec.devices);
  const isReader = task.program === "reader";
  const own = isReader ? 0 : task.index;
  let [step, point, slowStep] = [-1, 0, -1];
  // A coroutine can be stopped only where it waits: at the first wait of its step.
  const mayStop = fault.effect === "pause" || fault.effect === "stall";
  let isInjected = false;
  const pass = (isWait: boolean) => {
    const done = Atomics.load(steps, own);
    const now = isReader ? Math.min(done, fault.step) : done;
    if (now !== step) [step, point] = [now, 0];
    const isNow = mayStop ? isWait : fault.effect === "exit" && point === fault.point;
    point++;
    const isTime = mayStop ? step >= fault.step : step === fault.step;
    if (isInjected || !isTime || !isNow) return;
    isInjected = true;
    inject(fault, thread);
  };
  const slow = () => {
    pass(false);
    if (fault.effect !== "slow" || step < fault.step || step === slowStep) return;
    slowStep = step;
    thread.spend(fault.slowMs);
  };
  return passing(cells, { store: slow, wait: () => pass(true) });
}

function passing(cells: Cells, told: { store(): void; wait?(): void }): Cells {
  return {
    load: (cell) => cells.load(cell),
    store(cell, value, wake) {
      told.store();
      cells.store(cell, value, wake);
    },
    waitUntil(wait, isTrue, of) {
      told.wait?.();
      return cells.waitUntil(wait, isTrue, of);
    },
  };
}
