// The environment of a faulted run: a broker in this process, which may tamper with frames; the
// leader and the hosts of a cluster in separate processes, each restarted when it ends; and an
// observing client.

import { randomBytes } from "node:crypto";
import { Client } from "../../actors/client/client.ts";
import type { Incident } from "../../actors/runtime/incident.ts";
import type { Network, Role } from "../../actors/runtime/mailbox.ts";
import { openNetwork } from "../../actors/runtime/network.ts";
import { realClock } from "../../src/ports/clock.ts";
import { type Broker, startBroker } from "../../src/wire/broker/broker.ts";
import type { FaultPlan } from "../faults/faulty-launcher.ts";
import { FrameFaults } from "../faults/frame-faults.ts";
import { ActorProcess } from "./actor-process.ts";

const cluster = "chaos";
/** Heap limit of a process that must run out of memory. */
const heapMiB = 256;
/** Consecutive failed starts of a process, after which it is no longer restarted. */
const failuresMax = 20;
const restartMs = 100;

export interface EnvironmentOptions {
  readonly size: { readonly devices: number; readonly hosts: number };
  readonly plan: FaultPlan;
  /** Model modules that its job may use. */
  readonly models: readonly string[];
  /** Called with incidents outside the run. */
  readonly onIncident: (incident: Incident) => void;
}

export class Environment implements AsyncDisposable {
  readonly frames = new FrameFaults((client) => this.#processOf(client));
  readonly #options: EnvironmentOptions;
  readonly #token = randomBytes(16).toString("hex");
  readonly #processes = new Map<string, ActorProcess>();
  readonly #kept: Promise<void>[] = [];
  #broker: Broker | undefined;
  #network: Network | undefined;
  #isClosed = false;
  #isBrokerAway = false;

  private constructor(options: EnvironmentOptions) {
    this.#options = options;
  }

  /** @throws RemoteError where a process cannot start */
  static async open(options: EnvironmentOptions): Promise<Environment> {
    const environment = new Environment(options);
    try {
      await environment.#open();
      return environment;
    } catch (error) {
      await environment.close();
      throw error;
    }
  }

  /** The network of the observing client, which frame faults do not affect. */
  get network(): Network {
    if (this.#network === undefined)
      throw new TypeError("The environment was used before `open` resolved");
    return this.#network;
  }

  get client(): Client {
    return new Client({ transport: this.network.transport, cluster, clock: realClock });
  }

  /** A running process by name, `leader` or `host:1`; undefined: none. */
  process(name: string): ActorProcess | undefined {
    const found = this.#processes.get(name);
    return found?.hasEnded === true ? undefined : found;
  }

  /** The process with an actor of a run, assuming that ranks were dealt in host order. */
  processOf(role: Role, index: number): ActorProcess | undefined {
    const { hosts, devices } = this.#options.size;
    if (hosts === 0) return this.process("leader");
    const isByRank = role === "device" || role === "tier";
    return this.process(`host:${isByRank ? 1 + Math.floor(index / devices) : Math.max(1, index)}`);
  }

  /** Closes the broker, and restarts it on the same port after `awayMs`. */
  async restartBroker(awayMs: number): Promise<void> {
    const broker = this.#broker;
    if (broker === undefined || this.#isBrokerAway) return;
    this.#isBrokerAway = true;
    await broker.close();
    await sleep(awayMs);
    this.#broker = await this.#startBroker(broker.port);
    this.#isBrokerAway = false;
    if (this.#isClosed) await this.#broker.close();
  }

  /** Faults that are still in effect; empty: none. */
  alive(): string[] {
    const stopped = [...this.#processes.values()].filter((one) => one.isStopped);
    return [
      ...stopped.map(({ name }) => `process:${name} is suspended`),
      ...(this.frames.alive === 0 ? [] : [`${this.frames.alive} frame faults are still active`]),
      ...(this.#isBrokerAway ? ["the broker is not running"] : []),
    ];
  }

  /** Closes all processes, the client's connection and the broker. */
  async close(): Promise<void> {
    this.#isClosed = true;
    // Hosts are closed before the leader, or they would try to reconnect to it.
    const processes = [...this.#processes.values()].reverse();
    for (const one of processes) await one.close();
    await Promise.all(this.#kept);
    await this.#network?.transport.close();
    await this.#broker?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #open(): Promise<void> {
    const { hosts } = this.#options.size;
    this.#broker = await this.#startBroker(0);
    const names = ["leader", ...Array.from({ length: hosts }, (_, i) => `host:${i + 1}`)];
    for (const name of names) await this.#start(name);
    this.#network = await openNetwork({
      connection: { servers: this.#broker.url, token: this.#token },
      cluster,
      faultsAllowed: false,
      onError: () => {}, // The client repeats lost requests.
    });
    for (const name of names) this.#kept.push(this.#keep(name));
  }

  #startBroker(port: number): Promise<Broker> {
    return startBroker({
      port,
      auth: { token: this.#token },
      intercept: (from, subject, to) => this.frames.verdict(from, subject, to),
    });
  }

  async #start(name: string): Promise<void> {
    const { size, plan, models, onIncident } = this.#options;
    const isLeader = name === "leader";
    const order = {
      order: "start",
      role: isLeader ? "leader" : "host",
      nats: this.#broker?.url ?? "",
      token: this.#token,
      cluster,
      devices: isLeader && size.hosts > 0 ? 0 : size.devices,
      minDevices: size.devices * Math.max(1, size.hosts),
      plan,
      models,
    } as const;
    const isExhausted = plan.faults.some(
      (one) => one.what === "out-of-memory" && one.where === `process:${name}`,
    );
    await ActorProcess.start(name, order, {
      heapMiB: isExhausted ? heapMiB : undefined,
      onMessage: (message) => {
        if (message.type === "incident") onIncident(message.incident);
      },
      onStart: (process) => this.#processes.set(name, process),
    });
  }

  /** Restarts a process whenever it ends. */
  async #keep(name: string): Promise<void> {
    for (let failures = 0; failures < failuresMax; ) {
      await this.#processes.get(name)?.exited;
      if (this.#isClosed) return;
      await sleep(restartMs);
      if (this.#isClosed) return;
      try {
        await this.#start(name);
        failures = 0;
      } catch {
        failures++;
      }
    }
  }

  #processOf(client: string): string | undefined {
    const pid = /^osiris-.*-(\d+)$/.exec(client)?.[1];
    const found = [...this.#processes.values()].find((one) => String(one.pid) === pid);
    return found?.name;
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resume) => {
    realClock.after(ms, resume);
  });
}
