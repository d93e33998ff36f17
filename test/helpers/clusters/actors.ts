// Single actors in simulated time: an in-memory network, fake threads, and a small generation for
// the actors to belong to.

import { type AnyStateMachine, createActor, type InputFrom } from "xstate";
import { Membership } from "../../../actors/host/membership.ts";
import { actorClock } from "../../../actors/runtime/define-actor.ts";
import {
  type ActorMessage,
  type Address,
  type Network,
  openMailbox,
  type RunScope,
  subscribe,
} from "../../../actors/runtime/mailbox.ts";
import { WaitBook } from "../../../actors/runtime/wait-graph.ts";
import type { GenerationSpec } from "../../../actors/threads/generation-spec.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import type { Launcher, Thread, ThreadEnd } from "../../../src/ports/launcher.ts";
import { silentLog } from "../../../src/ports/log.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { createMemoryBroker } from "../../../src/wire/transports/memory-transport.ts";
import { smallData, smallModel } from "./clusters.ts";

export interface SimulatedNetwork {
  readonly network: Network;
  readonly clock: SimulatedClock;
  /** All messages sent to an address of the run, so far. */
  heard(to: Address): ActorMessage[];
  /** Sends a message to an address of the run, and delivers it. */
  say(to: Address, type: string, body: unknown): void;
  /** Advances time by `ms`, and runs everything that becomes due. */
  pass(ms: number): Promise<void>;
}

/** The turns that a host takes to lay out a generation (src/ports/turns.ts), and some more. */
const turns = new Array<number>(30).fill(0);

export const scope: RunScope = { run: "r1", generation: 1 };

export function startSimulatedNetwork(overrides: Partial<Network> = {}): SimulatedNetwork {
  const clock = new SimulatedClock();
  const broker = createMemoryBroker({ clock, seed: 1 });
  const network: Network = {
    transport: broker.connect("test"),
    connection: { servers: "nats://nowhere" },
    cluster: "c1",
    clock,
    disk: new SimulatedDisk(),
    faultsAllowed: true,
    log: silentLog,
    createdBy: "test",
    connectedForMs: () => Number.POSITIVE_INFINITY,
    waits: new WaitBook(clock),
    refused: { frames: 0 },
    onCorrupt(error) {
      throw error;
    },
    ...overrides,
  };
  const heard = new Map<string, ActorMessage[]>();
  const listOf = ({ role, index }: Address): ActorMessage[] => {
    const name = `${role}:${index}`;
    let list = heard.get(name);
    if (list === undefined) {
      list = [];
      heard.set(name, list);
    }
    return list;
  };
  const roles = [
    "coordinator",
    "checkpoint",
    "host",
    "device",
    "hosts",
    "joining",
    "inspector",
  ] as const;
  for (const role of roles) {
    for (const index of [0, 1, 2, 3]) {
      const to = { role, index };
      subscribe(network, to, (message) => listOf(to).push(message));
    }
  }
  const mailbox = openMailbox(network, scope, { role: "cluster", index: 1 });
  return {
    network,
    clock,
    heard: listOf,
    say(to, type, body) {
      mailbox.send(to, type as never, body as never);
      clock.advance(0);
    },
    async pass(ms) {
      // Promises settle between timers due now and timers that become due, one turn after another.
      for (const part of [...turns, ms, ...turns]) {
        await new Promise<void>((resume) => setImmediate(resume));
        clock.advance(part);
      }
      await new Promise<void>((resume) => setImmediate(resume));
    },
  };
}

/** Starts an actor in the network's time; its failure is recorded, not thrown. */
export function startActor<Machine extends AnyStateMachine>(
  { clock }: SimulatedNetwork,
  machine: Machine,
  input: InputFrom<Machine>,
) {
  const actor = createActor(machine as AnyStateMachine, {
    input,
    clock: actorClock(clock),
  });
  const ends: { error?: unknown } = {};
  actor.subscribe({
    error(error) {
      ends.error = error;
    },
  });
  actor.start();
  clock.advance(0);
  return { actor, ends };
}

/** A fake thread that only records the commands sent to it. */
export interface FakeThread {
  readonly name: string;
  readonly commands: unknown[];
  readonly isKilled: boolean;
  report(report: unknown): void;
  /** Reports the exit of the thread. */
  end(end: ThreadEnd): void;
}

export function createFakeLauncher(): { launcher: Launcher; threads: FakeThread[] } {
  const threads: FakeThread[] = [];
  const launcher: Launcher = {
    start<Command, Report>(_entry: URL, _data: unknown, name: string): Thread<Command, Report> {
      let receive: (report: Report) => void = () => {};
      let end: (end: ThreadEnd) => void = () => {};
      const ended = new Promise<ThreadEnd>((resolve) => {
        end = resolve;
      });
      const fake = {
        name,
        commands: [] as unknown[],
        isKilled: false,
        report: (report: unknown) => receive(report as Report),
        end: (how: ThreadEnd) => end(how),
      };
      threads.push(fake);
      return {
        send: (command) => void fake.commands.push(command),
        ended,
        kill() {
          fake.isKilled = true;
        },
        onReport(next) {
          receive = next;
        },
        onObservation() {},
      };
    },
  };
  return { launcher, threads };
}

/** The membership of a cluster whose own process has `devices` devices. */
export function startMembership(options: { devices: number; minDevices?: number }): Membership {
  const { devices, minDevices = 1 } = options;
  return new Membership({
    minDevices,
    joinDeadlineMs: 60_000,
    own: devices === 0 ? undefined : { host: 0, devices, machine: "test", pid: 1 },
    arithmetic: "reference-1",
    version: "1.0.0",
  });
}

/** A generation of the small job on two devices. */
export function smallGenerationSpec(): GenerationSpec {
  const data = {
    training: { path: "nowhere", samples: 640 },
    contents: { training: { samples: 640, digest: "", version: 1, files: [] } },
    idsMax: [1, 1, 1],
    quarantined: 0,
    quarantine: [],
    remade: [],
    warnings: [],
  };
  const job = resolveJob({ model: smallModel, data: smallData });
  return { ...scope, job, devices: 2, hosts: [{ host: 0, devices: 2 }], data, fromStep: 0 };
}
