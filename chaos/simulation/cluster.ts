// A simulated cluster: the leader's process, or two candidates under a lease; host processes that
// join it; and a client that resubmits its job until it is finished. The actor trees are real; only
// clock, network, disk and threads are simulated.

import type { AnyActorRef } from "xstate";
import { Client } from "../../actors/client/client.ts";
import type { Run } from "../../actors/client/run.ts";
import { ElectedLeader } from "../../actors/cluster/elected-leader.ts";
import { Leader } from "../../actors/cluster/leader.ts";
import { directoryPlace } from "../../actors/cluster/lease-place.ts";
import { joiningTree } from "../../actors/host/joining.ts";
import { Membership } from "../../actors/host/membership.ts";
import { modulesOf } from "../../actors/jobs/allowed-paths.ts";
import { Registry } from "../../actors/run/state/registry.ts";
import type { RunEvent } from "../../actors/run/state/run-events.ts";
import type { PublishEvent } from "../../actors/run/state/run-record.ts";
import type { Incident } from "../../actors/runtime/incident.ts";
import type { Network } from "../../actors/runtime/mailbox.ts";
import { TrainingError } from "../../src/errors/errors.ts";
import { createLinkNetwork, type LinkNetwork } from "../../src/exchange/links/simulated-links.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { encodeBody } from "../../src/wire/messages/body.ts";
import { eventsSubject } from "../../src/wire/messages/subjects.ts";
import {
  createMemoryBroker,
  type MemoryBroker,
} from "../../src/wire/transports/memory-transport.ts";
import { SimulatedMachine } from "./machine.ts";
import { SimulatedProcess } from "./process.ts";
import { SimulatedThreads, type ThreadSpeed } from "./threads.ts";
import type { World } from "./world.ts";

/** Devices per host; the leader's own process comes first. */
export interface ClusterShape {
  readonly devices: readonly number[];
  readonly speed: ThreadSpeed;
  /** Range of the one-way delay of a frame. */
  readonly delayMs: readonly [number, number];
  /** Whether hosts open direct links, and the range of the delay of a frame on them. */
  readonly linkMs?: readonly [number, number] | undefined;
  /** Largest clock drift of a process: 0.1 is 10 %. */
  readonly drift?: number;
  /** Duration of the leader's lease; if set, a second process is the standby. */
  readonly leaseMs?: number;
}

/** Time to restart a process. */
const restartMs = 400;
/** Wait of the client before it retries. */
const patienceMs = 1000;
const cluster = "c1";
/** Directory of the lease on the simulated disk. */
const leaseDirectory = "/lease";
const arithmetic = "reference-1";

const mib = 1024 * 1024;
/** Frames of a job with many tables: small, so that its messages travel in chunks. */
const wideFrameBytes = mib / 16;

function isWide({ model }: JobOptions): boolean {
  return (model?.tables?.length ?? 0) > 100;
}

export class SimulatedCluster {
  readonly world: World;
  readonly broker: MemoryBroker;
  readonly links: LinkNetwork;
  readonly machine: SimulatedMachine;
  readonly threads: SimulatedThreads;
  /** Events that the client has received, of all runs of its job. */
  readonly events: RunEvent[] = [];
  /**
   * Whether a file was damaged: committed state may then be lost, but results must not be wrong.
   */
  isDamaged = false;
  /** Number of terms under the lease. */
  terms = 0;
  /** The event that ended the job; undefined while it lasts. */
  ending: RunEvent | undefined;
  readonly shape: ClusterShape;
  readonly job: JobOptions;
  readonly #processes = new Map<number, SimulatedProcess>();
  readonly #listeners = new Set<(event: RunEvent) => void>();
  /** Replaced processes that still exist. */
  readonly #zombies: SimulatedProcess[] = [];
  readonly #clientProcess: SimulatedProcess;
  readonly #client: Client;
  #started = 0;
  /**
   * Number of the submission: a run ends by design if its disk stays full, and is then submitted
   * again.
   */
  #attempt = 1;
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
      frameBytesMax: isWide(job) ? wideFrameBytes : mib,
      onError(error) {
        if (!(error instanceof TrainingError)) throw error;
        world.note("broker", error.message);
      },
    });
    const faults = shape.linkMs && { delayMs: shape.linkMs };
    this.links = createLinkNetwork({ clock: world.clock, seed, faults });
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
    for (const place of this.places) this.#start(place);
    void this.#follow();
  }

  /** Indices of processes: 0 is the leader, then the joining hosts, and last the standby. */
  get places(): number[] {
    const { devices, leaseMs } = this.shape;
    return Array.from({ length: devices.length + (leaseMs === undefined ? 0 : 1) }, (_, i) => i);
  }

  /** The broker's name of the process at a place. */
  nameOf(place: number): string {
    if (place === 0) return "leader";
    return place < this.shape.devices.length ? `host${place}` : "standby";
  }

  processAt(place: number): SimulatedProcess | undefined {
    return this.#processes.get(place);
  }

  /** Calls `listen` for each event of the job that the client receives. */
  onEvent(listen: (event: RunEvent) => void): void {
    this.#listeners.add(listen);
  }

  /** Kills a process, which is restarted after `restartMs`. */
  kill(place: number): void {
    const process = this.#processes.get(place);
    if (process === undefined || process.isDead) return;
    process.kill();
    if (!this.#isOver) this.world.clock.after(restartMs, () => this.#start(place));
  }

  /**
   * Stops and disconnects a process, and starts its replacement at once. Returns the stopped
   * process.
   */
  replace(place: number): SimulatedProcess | undefined {
    const process = this.#processes.get(place);
    if (process === undefined || process.isDead) return undefined;
    process.stop();
    process.cutOff();
    this.#zombies.push(process);
    this.#start(place);
    return process;
  }

  /** Sends a user request to the run; false if there is none. A refusal is noted in the trace. */
  ask(what: string, of: (run: Run) => Promise<unknown>): boolean {
    const run = this.events.at(-1)?.run;
    if (run === undefined) return false;
    const asked = of(this.#client.run(run));
    asked.catch((error: unknown) => this.world.note("client", `may not ${what}: ${error}`));
    return true;
  }

  /** Kills all processes. */
  close(): void {
    this.#isOver = true;
    for (const process of [...this.#processes.values(), ...this.#zombies]) process.kill();
  }

  #start(place: number): void {
    if (this.#isOver) return;
    const serial = this.#started++;
    const process = new SimulatedProcess(this.nameOf(place), this, {
      serial,
      drift: this.shape.drift ?? 0,
      isLinked: this.shape.linkMs !== undefined,
    });
    this.#processes.set(place, process);
    this.world.note(process.id, "starts");
    process.enter(() => {
      try {
        if (process.name.startsWith("host")) this.#startHost(process, place, serial);
        else this.#startLeader(process, place, serial);
      } catch (error) {
        if (diskCode(error) === undefined) throw error;
        this.world.note(process.id, `cannot start: ${error}`);
        this.kill(place);
      }
    });
  }

  #startLeader(process: SimulatedProcess, place: number, serial: number): void {
    const network = process.network(process.connect());
    const { devices: all, leaseMs } = this.shape;
    const [devices = 0] = all;
    const publish = ({ transport }: Network, ...[event, tenant]: Parameters<PublishEvent>) => {
      const { payload, headers } = encodeBody(event, "application/json");
      transport.publish(eventsSubject(cluster, event.run, tenant), payload, { headers });
    };
    const prefix = `r${serial}-`;
    const common = {
      network,
      devices,
      launcher: this.threads.launcherOf(process),
      membership: new Membership({
        minDevices: all.reduce((sum, count) => sum + count, 0),
        joinDeadlineMs: 60_000,
        own: devices === 0 ? undefined : { host: 0, devices, machine: "leader", pid: serial },
        arithmetic,
        version: "1.0.0",
      }),
      access: { roots: {}, tenants: {}, ownModels: new Set(modulesOf(resolveJob(this.job))) },
      onIncident: ({ offender, reason }: Incident) =>
        this.world.note(process.id, `replaces ${offender}: ${reason.message}`),
    };
    if (leaseMs === undefined) {
      new Leader({
        ...common,
        registry: new Registry(prefix, (...event) => publish(network, ...event)),
      });
      return;
    }
    new ElectedLeader({
      ...{ ...common, leaseMs, prefix, publish },
      place: directoryPlace(network.disk, leaseDirectory),
      onStandby: (leader) => this.world.note(process.id, `is a standby of ${leader}`),
      onLeading: () => this.world.note(process.id, `is elected leader, in term ${++this.terms}`),
      onLost: (error) => {
        this.world.note(process.id, `has lost the leadership: ${error}`);
        if (this.#processes.get(place) === process) this.kill(place);
        else process.kill();
      },
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
        this.world.note(process.id, `replaces ${offender}: ${reason.message}`),
    });
    tree.subscribe({ error: () => process.kill() });
    tree.start();
  }

  /** Submits the job until a run has finished, and follows each run. */
  async #follow(): Promise<void> {
    for (; this.ending === undefined; ) {
      try {
        const run = await this.#client.submit(this.job, { key: `attempt-${this.#attempt}` });
        for await (const event of run.events()) this.#receive(event);
      } catch (error) {
        this.world.note("client", `repeats the request: ${error}`);
        await new Promise<void>((resume) => this.#clientProcess.clock.after(patienceMs, resume));
      }
    }
  }

  #receive(event: RunEvent): void {
    const { type, run, generation, seq } = event;
    const whose = "offender" in event ? `: ${event.offender}` : "";
    const why = "error" in event ? `${whose}: ${event.error.message}` : "";
    this.world.note("client", `receives ${run} ${generation} ${seq} ${type}${why}`);
    this.events.push(event);
    for (const listen of this.#listeners) listen(event);
    // Acts as an operator, who submits the job again after making room on a full disk, or after a
    // run was set aside because of too many power losses.
    const passing = ["TIER_DISK_FULL", "DISK_REFUSED", "RUN_SET_ASIDE"];
    if (type === "run.failed" && passing.includes(event.error.code)) this.#attempt++;
    else if (type === "run.finished" || type === "run.failed") this.ending = event;
  }
}
