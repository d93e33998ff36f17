// Injects the faults of a scenario, and ends them.
//
// Invariants
//   I1. The injector tracks every lasting fault, so that none lasts at the end.

import type { Run } from "../../actors/client/run.ts";
import { lowestRate } from "../../actors/jobs/command-readers.ts";
import { clusterScope, openMailbox } from "../../actors/runtime/mailbox.ts";
import type { LinkFaults } from "../../src/exchange/links/simulated-links.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { purposes, RandomStream } from "../../src/ports/random.ts";
import type { MemoryFaults } from "../../src/wire/transports/memory-transport.ts";
import type { SimulatedCluster } from "./cluster.ts";
import type { DiskFault, DiskOperation, RequestFault } from "./machine.ts";
import { SimulatedProcess } from "./process.ts";
import type { Scenario, SimulatedFault } from "./scenario.ts";
import { InjectedError } from "./threads.ts";

/** Most requests that are carried out before a delayed request of a machine without power. */
const lateMax = 40;
/** Lifetime of a zombie process after it resumes. */
const zombieMs = 500;

export class Injector {
  /** Number of injections by kind. */
  readonly injected = new Map<SimulatedFault["kind"], number>();
  readonly #cluster: SimulatedCluster;
  readonly #random: RandomStream;
  /** Lasting faults, each with the function that ends it. */
  readonly #alive = new Map<SimulatedFault, () => void>();
  /** Numbers of the disk operations at which power is lost. */
  readonly #powerAt = new Map<number, SimulatedFault>();
  #operations = 0;
  readonly #chaos: SimulatedProcess;

  constructor(cluster: SimulatedCluster, scenario: Scenario) {
    this.#cluster = cluster;
    this.#random = new RandomStream(scenario.seed, purposes.faults, 2);
    this.#chaos = new SimulatedProcess("chaos", cluster);
    const { clock } = cluster.world;
    const { faultsMs } = scenario;
    const transport = this.#chaos.connect();
    const network = this.#chaos.network(transport);
    const throwIn = ({ role, index }: Extract<SimulatedFault, { kind: "actor.throw" }>) => {
      const last = cluster.events.at(-1);
      const isOfRun = !["cluster", "hosts", "jobs", "queue", "host"].includes(role);
      if (isOfRun && last === undefined) return false;
      const generation = role === "job" ? 0 : (last?.generation ?? 0);
      const scope = isOfRun ? { run: last?.run ?? "", generation } : clusterScope;
      const mailbox = openMailbox(network, scope, { role: "cluster", index: 1 });
      mailbox.send({ role, index }, "chaos.throw", { reason: "injected" });
      return true;
    };
    for (const fault of scenario.faults) {
      clock.after(fault.atMs, () => {
        if (clock.now() > faultsMs) return;
        const wasInjected = fault.kind === "actor.throw" ? throwIn(fault) : this.#inject(fault);
        if (wasInjected) this.#note(fault);
        if (!("forMs" in fault)) return;
        clock.after(fault.forMs, () => this.#takeBack(fault));
      });
    }
    cluster.machine.faultOf = (operation) => this.#diskFault(operation);
    cluster.machine.requestFaultOf = (operation) => this.#requestFault(operation);
    cluster.machine.costOf = (operation) => this.#diskCost(operation);
  }

  /** Ends every lasting fault. I1 */
  heal(): void {
    for (const fault of [...this.#alive.keys()]) this.#takeBack(fault);
    this.#powerAt.clear();
    for (const thread of this.#cluster.threads.running) thread.loseAtStore(Infinity);
  }

  /** Number of operations that changed the disk so far. */
  get operations(): number {
    return this.#operations;
  }

  /** Lasting faults. */
  get alive(): readonly SimulatedFault[] {
    return [...this.#alive.keys()];
  }

  #note(fault: SimulatedFault): void {
    this.#cluster.world.note("chaos", JSON.stringify(fault));
    this.injected.set(fault.kind, (this.injected.get(fault.kind) ?? 0) + 1);
  }

  #lasts(fault: SimulatedFault, takeBack: () => void): boolean {
    this.#alive.set(fault, takeBack);
    return true;
  }

  #takeBack(fault: SimulatedFault): void {
    const takeBack = this.#alive.get(fault);
    if (takeBack === undefined) return;
    this.#alive.delete(fault);
    this.#cluster.world.note("chaos", `heals ${fault.kind}`);
    takeBack();
  }

  /** Injects a fault. False if its target does not exist. */
  #inject(fault: Exclude<SimulatedFault, { kind: "actor.throw" }>): boolean {
    const { broker, threads, places } = this.#cluster;
    const thread = "pick" in fault ? picked(threads.running, fault.pick) : undefined;
    const place = "pick" in fault ? (picked(places, fault.pick) ?? 0) : 0;
    const name = this.#cluster.nameOf(place);
    switch (fault.kind) {
      case "thread.kill":
        thread?.lose("the thread ended with exit code 1");
        return thread !== undefined;
      case "thread.memory":
        thread?.lose("the thread reached its memory limit");
        return thread !== undefined;
      case "thread.throw":
        thread?.throwNext(new InjectedError("injected"));
        return thread !== undefined;
      case "thread.store":
        thread?.loseAtStore(fault.stores);
        return thread !== undefined;
      case "thread.pause":
        thread?.stop();
        return thread !== undefined && this.#lasts(fault, () => thread.goOn());
      case "thread.slow":
        thread?.slow(fault.factor);
        return thread !== undefined && this.#lasts(fault, () => thread.slow(1));
      case "process.kill":
        this.#cluster.kill(place);
        return true;
      case "process.pause": {
        const process = this.#cluster.processAt(place);
        process?.stop();
        return process !== undefined && this.#lasts(fault, () => process.goOn());
      }
      case "process.zombie": {
        const zombie = this.#cluster.replace(place);
        if (zombie === undefined) return false;
        const { clock } = this.#cluster.world;
        return this.#lasts(fault, () => {
          zombie.goOn();
          clock.after(zombieMs, () => zombie.kill());
        });
      }
      case "run.scale":
      case "run.move":
      case "run.freeze":
      case "run.rate":
      case "run.drain":
        return this.#cluster.ask(fault.kind, (run) => requestOf(fault, run, this.#cluster.job));
      case "broker.cut":
        broker.cut(name);
        return this.#lasts(fault, () => this.#mend());
      case "broker.restart":
        for (const one of ["client", "chaos", ...places.map((one) => this.#cluster.nameOf(one))])
          broker.cut(one);
        return this.#lasts(fault, () => this.#mend());
      case "partition": {
        const others = places
          .filter((one) => one !== place)
          .map((one) => this.#cluster.nameOf(one));
        if (others.length === 0) return false;
        broker.partition([name], others);
        return this.#lasts(fault, () => this.#mend());
      }
      case "frames":
      case "frames.delay":
        this.#lasts(fault, () => this.#setFrames());
        this.#setFrames();
        return true;
      case "link.cut":
        return this.#cluster.links.cut(fault.pick);
      case "links":
      case "links.delay":
        if (this.#cluster.shape.linkMs === undefined) return false;
        this.#lasts(fault, () => this.#setLinks());
        this.#setLinks();
        return true;
      case "clock.jump": {
        const process = this.#cluster.processAt(place);
        process?.skew(fault.byMs);
        return process !== undefined;
      }
      default:
        return this.#injectDiskFault(fault);
    }
  }

  #injectDiskFault(
    fault: Extract<SimulatedFault, { kind: `disk.${string}` | `store.${string}` | "power" }>,
  ): boolean {
    switch (fault.kind) {
      case "store.error":
      case "store.slow":
      case "disk.full":
      case "disk.error":
      case "disk.slow":
        return this.#lasts(fault, () => {});
      case "disk.flip": {
        const { disk } = this.#cluster.machine;
        const path = picked(disk.files(), fault.pick);
        if (path === undefined || !disk.flipBit(path, fault.bit)) return false;
        // A damaged data cache is rebuilt, so nothing may be lost by it.
        if (!path.endsWith(".cache")) this.#cluster.isDamaged = true;
        return true;
      }
      case "power":
        this.#powerAt.set(this.#operations + fault.operations, fault);
        return false; // Injected later.
      default:
        return fault satisfies never;
    }
  }

  /** `heal` ends all faults of the broker, so that faults which still last are injected again. */
  #mend(): void {
    this.#cluster.broker.heal();
    for (const fault of this.#alive.keys()) {
      if (fault.kind === "broker.cut" || fault.kind === "broker.restart") this.#inject(fault);
      if (fault.kind === "partition") this.#inject(fault);
    }
  }

  #setFrames(): void {
    const faults = [...this.#alive.keys()].flatMap((fault): MemoryFaults[] => {
      if (fault.kind === "frames.delay") return [{ delayMs: [0, fault.delayMs] }];
      if (fault.kind !== "frames") return [];
      return [{ subjects: fault.subjects, [fault.what]: fault.probability }];
    });
    this.#cluster.broker.setFaults(...faults, { delayMs: this.#cluster.shape.delayMs });
  }

  #setLinks(): void {
    const faults = [...this.#alive.keys()].flatMap((fault): LinkFaults[] => {
      if (fault.kind === "links.delay") return [{ delayMs: [0, fault.delayMs] }];
      return fault.kind === "links" ? [{ [fault.what]: fault.probability }] : [];
    });
    const { linkMs: delayMs = [0, 0] } = this.#cluster.shape;
    this.#cluster.links.setFaults(...faults, { delayMs });
  }

  #diskCost({ atMs }: DiskOperation): number {
    const slow = [...this.#alive.keys()].filter((fault) => fault.kind === "disk.slow");
    return slow.reduce((sum, one) => sum + (isOver(one, atMs) ? 0 : one.operationMs), 0);
  }

  #diskFault({ kind, process, atMs }: DiskOperation): DiskFault | undefined {
    if (process === this.#chaos.id) return undefined;
    if (kind !== "read" && this.#isPowerLost()) return "power";
    for (const fault of this.#alive.keys()) {
      if (isOver(fault, atMs)) continue;
      if (fault.kind === "disk.full" && (kind === "write" || kind === "make")) return "ENOSPC";
      if (fault.kind !== "disk.error" || this.#random.uniform() >= fault.probability) continue;
      return "EIO";
    }
    return undefined;
  }

  #requestFault({ kind, process, atMs }: DiskOperation): RequestFault | undefined {
    if (process === this.#chaos.id) return undefined;
    if (kind === "request" && this.#isPowerLost()) {
      const kind = "crash";
      const request = (["lost", "done", "late", "late"] as const)[this.#random.below(4)] ?? "lost";
      if (request !== "late") return { kind, request };
      // The delay may be so long that the request is carried out after the next leader has claimed.
      return { kind, request, after: this.#random.below(lateMax) };
    }
    for (const fault of this.#alive.keys()) {
      if (isOver(fault, atMs)) continue;
      if (fault.kind === "store.slow") return { kind: "slow", ms: fault.requestMs };
      if (fault.kind !== "store.error" || this.#random.uniform() >= fault.probability) continue;
      return requestFault(this.#random);
    }
    return undefined;
  }

  /** Counts an operation that changes data. Returns whether power is lost at it. */
  #isPowerLost(): boolean {
    const power = this.#powerAt.get(++this.#operations);
    if (power === undefined) return false;
    this.#powerAt.delete(this.#operations);
    this.#note(power);
    return true;
  }
}

/** A fault of one request to the bucket. */
function requestFault(random: RandomStream): RequestFault {
  const after = random.below(6);
  switch (random.below(8)) {
    case 0:
      return { kind: "request-lost" };
    case 1:
      return { kind: "answer-lost" };
    case 2:
      return { kind: "duplicated", after };
    case 3:
      return { kind: "delayed", after };
    case 4:
      return { kind: "torn" };
    case 5:
      return { kind: "expired" };
    case 6:
      return { kind: "conflict" };
    default:
      return { kind: "unavailable" };
  }
}

/**
 * Whether a fault is over at `atMs`, the time of a process or thread that may be ahead of the
 * clock.
 */
function isOver(fault: SimulatedFault, atMs: number): boolean {
  return "forMs" in fault && atMs >= fault.atMs + fault.forMs;
}

function picked<Value>(values: readonly Value[], pick: number): Value | undefined {
  return values[pick % Math.max(1, values.length)];
}

/** Sends the user request of a fault to the run. */
function requestOf(
  fault: Extract<SimulatedFault, { kind: `run.${string}` }>,
  run: Run,
  job: JobOptions,
): Promise<unknown> {
  switch (fault.kind) {
    case "run.scale":
      return run.scale({ devices: fault.devices });
    case "run.move":
      return run.moveShard(fault.shard, { device: fault.device });
    case "run.freeze":
      return fault.isThawed ? run.thawShard(fault.shard) : run.freezeShard(fault.shard);
    case "run.rate": {
      const samplesPerSecond = Math.ceil(fault.times * lowestRate(resolveJob(job)));
      return run.limitReaders({ samplesPerSecond });
    }
    case "run.drain":
      return run.drainReader(fault.reader);
    default:
      return fault satisfies never;
  }
}
