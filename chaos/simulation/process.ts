// A simulated process: the ports of one operating-system process. Everything that reaches it passes
// through `enter`, so that it can be stopped or killed between any two of its tasks.
//
// Invariants
//   P1. A dead process has no effect: its timers, frames and promises are ignored, and its disk
//       refuses it.
//   P2. A stopped process misses nothing: tasks that arrive meanwhile run when it resumes.
//   P3. Time spent on a slow disk passes before the process does anything else.

import type { Network } from "../../actors/runtime/mailbox.ts";
import { connectedFor } from "../../actors/runtime/network.ts";
import { WaitBook } from "../../actors/runtime/wait-graph.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import type { LinkNetwork } from "../../src/exchange/links/simulated-links.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { silentLog } from "../../src/ports/log.ts";
import type { Frame, Transport } from "../../src/wire/messages/transport.ts";
import type { MemoryBroker } from "../../src/wire/transports/memory-transport.ts";
import { type Enter, guardTransport } from "./guarded-transport.ts";
import type { DiskOwner, SimulatedMachine } from "./machine.ts";
import type { World } from "./world.ts";

/**
 * The surroundings of a process: the world, the broker and the machine, shared by all processes.
 */
export interface Surroundings {
  readonly world: World;
  readonly broker: MemoryBroker;
  readonly links: LinkNetwork;
  readonly machine: SimulatedMachine;
}

/** Individual properties of a process. */
interface OwnProcess {
  /** Makes its id unique. */
  readonly serial?: number;
  /** Clock drift, as in `ClusterShape`. */
  readonly drift?: number;
  /** Whether hosts open direct links. */
  readonly isLinked?: boolean;
}

export class SimulatedProcess implements DiskOwner {
  /** Its name at the broker, the same for its replacement. */
  readonly name: string;
  /** Its unique id. */
  readonly id: string;
  readonly world: World;
  readonly clock: Clock;
  readonly disk: Disk;
  /** The direct links between all processes. */
  readonly links: LinkNetwork;
  readonly #isLinked: boolean;
  readonly #broker: MemoryBroker;
  readonly #transports = new Set<Transport>();
  readonly #backlog: (() => void)[] = [];
  readonly #onDeath = new Set<() => void>();
  #isDead = false;
  /** Number of unmatched `stop` calls. */
  #stops = 0;
  #spentMs = 0;
  #skewMs = 0;

  constructor(name: string, surroundings: Surroundings, own: OwnProcess = {}) {
    const { world, broker, links, machine } = surroundings;
    this.name = name;
    this.links = links;
    const { serial, drift = 0, isLinked = false } = own;
    this.#isLinked = isLinked;
    this.id = serial === undefined ? name : `${name}-${serial}`;
    const rate = world.between(1 - drift, 1 + drift);
    this.world = world;
    this.#broker = broker;
    this.disk = machine.diskOf(this, this);
    this.clock = {
      now: () => rate * this.nowMs() + this.#skewMs,
      date: () => world.clock.date(),
      epochMs: () => this.nowMs(),
      after: (delayMs, task) => world.clock.after(delayMs / rate, () => this.enter(task)),
    };
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get isOver(): boolean {
    return this.#isDead;
  }

  nowMs(): number {
    return this.world.clock.now() + this.#spentMs;
  }

  spend(ms: number): void {
    this.#spentMs += ms;
  }

  /** Makes its clock jump. */
  skew(byMs: number): void {
    this.#skewMs += byMs;
  }

  /**
   * Runs a task in this process: now, later, or never. An error that it throws is a bug of the
   * trainer.
   */
  enter(task: () => void): void {
    if (this.#isDead) return; // P1
    if (this.#stops > 0) {
      this.#backlog.push(task); // P2
      return;
    }
    try {
      task();
    } catch (error) {
      if (!this.#isDead) this.world.crash ??= { where: this.id, error };
    }
    const spentMs = this.#spentMs;
    this.#spentMs = 0;
    if (spentMs === 0) return;
    this.stop(); // P3
    this.world.clock.after(spentMs, () => this.goOn());
  }

  /** Connects to the broker, as this process or as one of its threads, which `enter` reaches. */
  connect(enter: Enter = (task) => this.enter(task)): Transport {
    const inner = this.#broker.connect(this.name);
    const transport = guardTransport(inner, {
      enter,
      isDead: () => this.#isDead,
      handle: this.#handle,
    });
    this.#transports.add(transport);
    return transport;
  }

  /** The network of its actors. */
  network(transport: Transport): Network {
    return {
      transport,
      connection: { servers: transport.address },
      cluster: "c1",
      clock: this.clock,
      disk: this.disk,
      hostLinks: this.#isLinked ? { mode: "auto", linkEncryption: "auto" } : undefined,
      faultsAllowed: true,
      log: silentLog,
      createdBy: this.id,
      connectedForMs: connectedFor(transport, this.clock),
      waits: new WaitBook(this.clock),
      refused: { frames: 0 },
      onCorrupt: (error) => this.world.note(this.id, `reports ${error.message}`),
    };
  }

  readonly #handle = (frame: Frame, receive: () => void): void => {
    const { subject, payload } = frame;
    this.world.count(this.id, `receives ${subject} ${payload.length}`);
    try {
      receive();
    } catch (error) {
      if (!(error instanceof TrainingError)) throw error;
      this.world.note(this.id, `refuses a frame: ${error.message}`);
    }
  };

  onDeath(listener: () => void): () => void {
    this.#onDeath.add(listener);
    return () => this.#onDeath.delete(listener);
  }

  kill(): void {
    if (this.#isDead) return;
    this.#isDead = true;
    this.#backlog.length = 0;
    this.world.note(this.id, "exits");
    for (const transport of this.#transports) void transport.close();
    for (const listener of [...this.#onDeath]) listener();
  }

  /** Closes its connections. */
  cutOff(): void {
    for (const transport of this.#transports) void transport.close();
  }

  /** SIGSTOP. */
  stop(): void {
    this.#stops++;
  }

  /** SIGCONT. */
  goOn(): void {
    if (--this.#stops > 0) return;
    const waiting = this.#backlog.splice(0);
    for (const task of waiting) this.enter(task);
  }
}
