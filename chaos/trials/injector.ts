// The injector: carries out the faults that come from outside of every thread. Device 0 stands at
// the gate of such a fault until it was injected; what lasts is healed here, and at the end at
// once.

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

/** How often gates are looked at. */
const lookMs = 5;
/** A slow process moves for so long, then hangs for as long. */
const slowBeatMs = 10;
/** Roles that belong to the cluster, not to a run. */
const ofCluster: readonly Role[] = ["cluster", "jobs", "queue", "hosts", "host"];

export interface InjectorOptions {
  readonly schedule: Schedule;
  readonly injections: Injections;
  readonly environment: Environment;
  readonly stepDeadlineMs: number;
  /** The name of the run that is disturbed now. */
  run(): string | undefined;
  /** Steps that the run has told of. */
  step(): number;
}

/** A fault that lasts, and how to end it. */
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

  /** Ends what lasts, and injects no more. */
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
        this.#askReaders((run) => run.drainReader(fault.reader));
        return done();
      case "rate": {
        const { samples: samplesPerSecond } = fault;
        this.#askReaders((run) => run.limitReaders({ samplesPerSecond }));
        return this.#last(index, forMs, () =>
          this.#askReaders((run) => run.limitReaders({ samplesPerSecond: 0 })),
        );
      }
      case "move":
      case "freeze":
        await this.#askOfShard(fault);
        return done();
      case "nan":
        return; // Always in a thread.
      default:
        return fault satisfies never;
    }
  }

  /** The process that a place names; of an actor, the one in which it lives. */
  #processOf(where: string): ActorProcess | undefined {
    const { environment } = this.#options;
    const [kind, role = "", index = "0"] = where.split(":");
    if (kind === "process") return environment.process(role === "root" ? "root" : `host:${index}`);
    const isOfHosts = ["host", "device", "shard", "reader", "tier", "bridge", "pool"].includes(
      role,
    );
    return isOfHosts
      ? environment.processOf(role as Role, Number(index))
      : environment.process("root");
  }

  /** Until its time is over, or the run is. */
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

  /** Half of the time it hangs, for so many steps of the run. */
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
    mailbox.tell(to, "chaos.throw", { reason: `fault ${fault} of the schedule` });
    await environment.network.transport.flush();
  }

  /** What a user may ask is no fault: a refusal is an answer, and changes nothing. */
  async #askOfShard(fault: Extract<Fault, { what: "move" | "freeze" }>): Promise<void> {
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

  /** The same; nobody waits for the answer, as the thread at the gate may be a reader's. */
  #askReaders(ask: (run: Run) => Promise<unknown>): void {
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
      // What it had taken and not delivered is gone with it.
      if (fault.what === "broker-forget") void environment.restartBroker(0);
    };
    const rule = environment.frames.begin(fault, { delayMs: forMs, over });
    // Few frames may pass: the fault ends after this time without its full number.
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
