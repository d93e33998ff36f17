// A simulated cluster: the process with the root, host processes that join it, and a client that
// wants its job done whatever happens. The trees of actors are those of a real one; only what they
// stand on is simulated.

import type { AnyActorRef } from "xstate";
import { Client } from "../../actors/client.ts";
import { joiningTree } from "../../actors/joining.ts";
import { Membership } from "../../actors/membership.ts";
import { Registry } from "../../actors/registry.ts";
import { Root } from "../../actors/root.ts";
import type { RunEvent } from "../../actors/run-events.ts";
import { TrainingError } from "../../src/errors.ts";
import type { JobOptions } from "../../src/job.ts";
import { encodeBody } from "../../src/wire/body.ts";
import { createMemoryBroker, type MemoryBroker } from "../../src/wire/memory-transport.ts";
import { eventsSubject } from "../../src/wire/subjects.ts";
import { SimulatedMachine } from "./machine.ts";
import { SimulatedProcess } from "./process.ts";
import { SimulatedThreads, type ThreadSpeed } from "./threads.ts";
import type { World } from "./world.ts";

/** Devices of each host: the first are those of the root's own process. */
export interface ClusterShape {
  readonly devices: readonly number[];
  readonly speed: ThreadSpeed;
  /** Least and largest delay of a frame on one way. */
  readonly delayMs: readonly [number, number];
  /** How much faster or slower than others the clock of a process runs, at most: 0.1 is 10 %. */
  readonly drift?: number;
}

/** How long a process takes to be there again. */
const restartMs = 400;
/** How long the client waits before it asks again. */
const patienceMs = 1000;
const cluster = "c1";
const arithmetic = "reference-1";

export class SimulatedCluster {
  readonly world: World;
  readonly broker: MemoryBroker;
  readonly machine: SimulatedMachine;
  readonly threads: SimulatedThreads;
  /** What the client has heard of its job, of each of its runs. */
  readonly events: RunEvent[] = [];
  /** Whether a file was damaged: what was committed may be gone then, and nothing may be wrong. */
  isDamaged = false;
  /** The last event, once there is one that ends the job. */
  ending: RunEvent | undefined;
  readonly shape: ClusterShape;
  readonly job: JobOptions;
  readonly #processes = new Map<number, SimulatedProcess>();
  readonly #listeners = new Set<(event: RunEvent) => void>();
  /** What others have taken the place of. */
  readonly #zombies: SimulatedProcess[] = [];
  readonly #clientProcess: SimulatedProcess;
  readonly #client: Client;
  #started = 0;
  #isOver = false;

  constructor(world: World, options: { shape: ClusterShape; job: JobOptions; seed: number }) {
    const { shape, job, seed } = options;
    this.world = world;
    this.shape = shape;
    this.job = job;
    this.broker = createMemoryBroker({
      clock: world.clock,
      seed,
      faults: { delayMs: shape.delayMs },
      onError(error) {
        if (!(error instanceof TrainingError)) throw error;
        world.note("broker", error.message);
      },
    });
    this.machine = new SimulatedMachine(world, seed);
    this.machine.onPower((power) => {
      if (power === "back") return;
      for (const zombie of this.#zombies) zombie.kill();
      for (const place of this.#processes.keys()) this.kill(place);
    });
    this.threads = new SimulatedThreads(this.machine, shape.speed);
    this.#clientProcess = new SimulatedProcess("client", this);
    const transport = this.#clientProcess.connect();
    this.#client = new Client({ transport, cluster, clock: this.#clientProcess.clock });
    for (const place of shape.devices.keys()) this.#start(place);
    void this.#follow();
  }

  /** Processes: 0 has the root, the others are hosts that joined. */
  get places(): number[] {
    return [...this.shape.devices.keys()];
  }

  processAt(place: number): SimulatedProcess | undefined {
    return this.#processes.get(place);
  }

  /** Told of each event of the job that the client hears. */
  onEvent(listen: (event: RunEvent) => void): void {
    this.#listeners.add(listen);
  }

  /** Ends a process; another takes its place. */
  kill(place: number): void {
    const process = this.#processes.get(place);
    if (process === undefined || process.isDead) return;
    process.kill();
    if (!this.#isOver) this.world.clock.after(restartMs, () => this.#start(place));
  }

  /** A process stands still, cut off, and another takes its place at once; returns the former. */
  replace(place: number): SimulatedProcess | undefined {
    const process = this.#processes.get(place);
    if (process === undefined || process.isDead) return undefined;
    process.stop();
    process.cutOff();
    this.#zombies.push(process);
    this.#start(place);
    return process;
  }

  /** Asks for so many devices; false where there is no run to ask. */
  scale(devices: number): boolean {
    const run = this.events.at(-1)?.run;
    if (run === undefined) return false;
    const asked = this.#client.run(run).scale({ devices });
    asked.catch((error: unknown) => this.world.note("client", `may not scale: ${error}`));
    return true;
  }

  /** Ends everything. */
  close(): void {
    this.#isOver = true;
    for (const process of [...this.#processes.values(), ...this.#zombies]) process.kill();
  }

  #start(place: number): void {
    if (this.#isOver) return;
    const serial = this.#started++;
    const process = new SimulatedProcess(place === 0 ? "root" : `host${place}`, this, {
      serial,
      drift: this.shape.drift ?? 0,
    });
    this.#processes.set(place, process);
    this.world.note(process.id, "starts");
    process.enter(() => {
      if (place === 0) this.#startRoot(process, serial);
      else this.#startHost(process, place, serial);
    });
  }

  #startRoot(process: SimulatedProcess, serial: number): void {
    const transport = process.connect();
    const network = process.network(transport);
    const [devices = 0] = this.shape.devices;
    const all = this.shape.devices.reduce((sum, count) => sum + count, 0);
    new Root({
      network,
      devices,
      launcher: this.threads.launcherOf(process),
      membership: new Membership({
        minDevices: all,
        joinDeadlineMs: 60_000,
        own: devices === 0 ? undefined : { host: 0, devices, machine: "root", pid: serial },
        arithmetic,
        version: "1.0.0",
      }),
      registry: new Registry(`r${serial}-`, (event, tenant) => {
        const { payload, headers } = encodeBody(event, "application/json");
        transport.publish(eventsSubject(cluster, event.run, tenant), payload, { headers });
      }),
      access: { roots: {}, tenants: {} },
      createdBy: "a simulation",
      onIncident: ({ offender, reason }) =>
        this.world.note(process.id, `mends ${offender}: ${reason.message}`),
    });
  }

  #startHost(process: SimulatedProcess, place: number, serial: number): void {
    const network = process.network(process.connect());
    const tree: AnyActorRef = joiningTree({
      network,
      launcher: this.threads.launcherOf(process),
      announcement: () => ({
        key: 1000 + serial,
        devices: this.shape.devices[place] ?? 1,
        arithmetic,
        version: "1.0.0",
        machine: process.name,
        pid: serial,
        isLeaving: false,
      }),
      onMayLeave() {},
      onHost: (host) => this.world.note(process.id, `is host ${host}`),
      onIncident: ({ offender, reason }) =>
        this.world.note(process.id, `mends ${offender}: ${reason.message}`),
    });
    tree.subscribe({ error: () => process.kill() });
    tree.start();
  }

  /** Submits the job until somebody has finished it, and follows each of its runs. */
  async #follow(): Promise<void> {
    for (; this.ending === undefined; ) {
      try {
        const run = await this.#client.submit(this.job, { key: "simulated" });
        for await (const event of run.events()) this.#hear(event);
      } catch (error) {
        this.world.note("client", `asks again: ${error}`);
        await new Promise<void>((resume) => this.#clientProcess.clock.after(patienceMs, resume));
      }
    }
  }

  #hear(event: RunEvent): void {
    const { type, run, generation, seq } = event;
    const why = "error" in event ? `: ${event.error.message}` : "";
    this.world.note("client", `hears ${run} ${generation} ${seq} ${type}${why}`);
    this.events.push(event);
    for (const listen of this.#listeners) listen(event);
    if (type === "run.finished" || type === "run.failed") this.ending = event;
  }
}
