// The injector of faults from outside the threads. Device 0 waits at the gate of such a fault until
// it is injected; the injector also ends lasting faults, all of them at the end of the run.

import type { Run } from "../../actors/client/run.ts";
import {
  type Address,
  clusterScope,
  openMailbox,
  type Role,
} from "../../actors/runtime/mailbox.ts";
import { realClock } from "../../src/ports/clock.ts";
import { isFromOutside } from "../faults/faulty-launcher.ts";
import type { FrameFault } from "../faults/frame-faults.ts";
import type { Injection, Injections } from "../faults/injections.ts";
import type { Fault, Schedule } from "../faults/schedule.ts";
import type { ActorProcess } from "./actor-process.ts";
import type { Environment } from "./environment.ts";

/** Polling interval of gates. */
const lookMs = 5;
/** A slow process alternates between running and hanging for this long. */
const slowBeatMs = 10;
/** Roles that belong to the cluster, not to a run. */
const ofCluster: readonly Role[] = ["cluster", "jobs", "queue", "hosts", "host"];

export interface InjectorOptions {
  readonly schedule: Schedule;
  readonly injections: Injections;
  readonly environment: Environment;
  readonly stepDeadlineMs: number;
  /** The id of the current run. */
  run(): string | undefined;
  /** The last reported step of the run. */
  step(): number;
}

/** A lasting fault, with the function that ends it. */
interface Lasting {
  readonly index: number;
  heal(): void;
}

export class Injector {
  readonly #options: InjectorOptions;
  readonly #outside: readonly { readonly fault: Fault; readonly index: number }[];
  readonly #lasting = new Set<Lasting>();
  #timer: () => void = () => {};
  #looking: Promise<void> = Promise.resolve();

  constructor(options: InjectorOptions) {
    this.#options = options;
    this.#outside = options.schedule.faults
      .map((fault, index) => ({ fault, index }))
      .filter(({ fault }) => isFromOutside(fault));
    this.#look();
  }

  /** Ends all lasting faults, and injects no more. */
  async stop(): Promise<void> {
    this.#timer();
    await this.#looking;
    this.#timer();
    for (const one of [...this.#lasting]) one.heal();
  }

  #look(): void {
    this.#timer = realClock.after(lookMs, () => {
      this.#looking = this.#injectAll().finally(() => this.#look());
    });
  }

  async #injectAll(): Promise<void> {
    const { injections } = this.#options;
    for (const { fault, index } of this.#outside) {
      const at = injections.arrived(index);
      if (at === undefined || injections.injected(index) !== undefined) continue;
      const { step, generation } = at;
      if (injections.claim(index, { step, generation })) await this.#inject(fault, index, at);
      injections.open(index);
    }
  }

  async #inject(fault: Fault, index: number, at: Injection): Promise<void> {
    const { stepDeadlineMs, injections } = this.#options;
    const forMs = "deadlines" in fault ? fault.deadlines * stepDeadlineMs : 0;
    const done = () => injections.heal(index, 1);
    const process = "where" in fault ? this.#processOf(fault.where) : undefined;
    switch (fault.what) {
      case "kill":
        process?.signal("SIGKILL");
        return done();
      case "pause":
        if (fault.where.startsWith("actor:")) {
          process?.send({ order: "block", forMs });
          return this.#last(index, forMs, () => {});
        }
        process?.signal("SIGSTOP");
        return this.#last(index, forMs, () => process?.signal("SIGCONT"));
      case "slow":
        if (process !== undefined) this.#slow(index, process, fault.steps);
        return;
      case "exception":
        await this.#throwIn(fault.where, index, at);
        return done();
      case "out-of-memory":
        process?.send({ order: "exhaust" });
        return done();
      case "clock-skew":
        process?.send({ order: "skew", byMs: forMs });
        return done();
      case "broker-kill":
      case "broker-restart":
        return this.#restartBroker(index, forMs);
      case "broker-forget":
      case "drop":
      case "delay":
      case "duplicate":
      case "reorder":
      case "corrupt":
      case "partition":
        return this.#tamper(index, fault, forMs);
      case "disk-full":
      case "disk-slow":
      case "torn-write":
      case "flipped-bit":
      case "lost-sync":
        process?.send({ order: "arm", fault: index });
        return;
      case "drain":
        this.#requestReaders((run) => run.drainReader(fault.reader));
        return done();
      case "rate": {
        const { samples: samplesPerSecond } = fault;
        this.#requestReaders((run) => run.limitReaders({ samplesPerSecond }));
        return this.#last(index, forMs, () =>
          this.#requestReaders((run) => run.limitReaders({ samplesPerSecond: 0 })),
        );
      }
      case "move":
      case "freeze":
        await this.#requestOfShard(fault);
        return done();
      case "nan":
      case "link-cut":
        return; // Only injected in a thread.
      default:
        return fault satisfies never;
    }
  }

  /** The process of a place; for an actor, the process that it runs in. */
  #processOf(where: string): ActorProcess | undefined {
    const { environment } = this.#options;
    const [kind, role = "", index = "0"] = where.split(":");
    if (kind === "process")
      return environment.process(role === "leader" ? "leader" : `host:${index}`);
    const isOfHosts = ["host", "device", "shard", "reader", "tier", "bridge", "pool"].includes(
      role,
    );
    return isOfHosts
      ? environment.processOf(role as Role, Number(index))
      : environment.process("leader");
  }

  /** Registers a lasting fault, which ends after `forMs` or with the run. */
  #last(index: number, forMs: number, end: () => void): void {
    const { injections } = this.#options;
    const one: Lasting = {
      index,
      heal: () => {
        cancel();
        if (!this.#lasting.delete(one)) return;
        end();
        injections.heal(index, 1);
      },
    };
    const cancel = realClock.after(forMs, () => one.heal());
    this.#lasting.add(one);
  }

  /** Makes a process hang for half of the time, for `steps` steps of the run. */
  #slow(index: number, process: ActorProcess, steps: number): void {
    const { step, injections } = this.#options;
    const fromStep = step();
    let isStill = false;
    let cancel = () => {};
    const one: Lasting = {
      index,
      heal: () => {
        cancel();
        if (!this.#lasting.delete(one)) return;
        process.signal("SIGCONT");
        injections.heal(index, steps);
      },
    };
    const beat = () => {
      if (process.hasEnded || step() >= fromStep + steps) return one.heal();
      isStill = !isStill;
      process.signal(isStill ? "SIGSTOP" : "SIGCONT");
      cancel = realClock.after(slowBeatMs, beat);
    };
    this.#lasting.add(one);
    beat();
  }

  async #throwIn(where: string, fault: number, { generation }: Injection): Promise<void> {
    const { environment, run } = this.#options;
    const [, role, index] = where.split(":") as [string, Role, string];
    const to: Address = { role, index: Number(index) };
    const scope = {
      run: run() ?? "",
      generation: role === "job" ? 0 : generation,
    };
    const own = ofCluster.includes(role) ? clusterScope : scope;
    const mailbox = openMailbox(environment.network, own, { role: "cluster", index: 1 });
    mailbox.send(to, "chaos.throw", { reason: `fault ${fault} of the schedule` });
    await environment.network.transport.flush();
  }

  /** Sends a user request for a shard. It is not a fault: a refusal is a valid answer. */
  async #requestOfShard(fault: Extract<Fault, { what: "move" | "freeze" }>): Promise<void> {
    const { environment, run: nameOf } = this.#options;
    const name = nameOf();
    if (name === undefined) return;
    const run = environment.client.run(name);
    const asked =
      fault.what === "move"
        ? run.moveShard(fault.shard, { device: fault.device })
        : run.freezeShard(fault.shard);
    await asked.catch(() => {});
  }

  /**
   * Sends a user request to the readers. The answer is not awaited, because the thread at the gate
   * may be a reader's.
   */
  #requestReaders(ask: (run: Run) => Promise<unknown>): void {
    const { environment, run: nameOf } = this.#options;
    const name = nameOf();
    if (name !== undefined) ask(environment.client.run(name)).catch(() => {});
  }

  #restartBroker(index: number, awayMs: number): void {
    const { environment, injections } = this.#options;
    void environment.restartBroker(awayMs).then(() => injections.heal(index, 1));
  }

  #tamper(index: number, fault: FrameFault, forMs: number): void {
    const { environment, injections, stepDeadlineMs } = this.#options;
    const over = (hits: number) => {
      injections.heal(index, hits);
      // Restarting the broker loses frames that it had accepted and not delivered.
      if (fault.what === "broker-forget") void environment.restartBroker(0);
    };
    const rule = environment.frames.begin(fault, { delayMs: forMs, over });
    // If few frames pass, the fault ends after this time without its full number.
    const limitMs = fault.what === "partition" ? forMs : stepDeadlineMs;
    const one: Lasting = {
      index,
      heal: () => {
        cancel();
        if (this.#lasting.delete(one)) rule.stop();
      },
    };
    const cancel = realClock.after(limitMs, () => one.heal());
    this.#lasting.add(one);
  }
}
