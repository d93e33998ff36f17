// The seats of the parameter servers of a generation on a host, and the tasks of the threads of
// servers and trainers. Server s lies on the device floor(s * devices / servers).

import { serversOf } from "../../../src/asynchronous/row-shards.ts";
import { createServerMemory, type ServerMemory } from "../../../src/asynchronous/server-memory.ts";
import { asynchronousOf } from "../../../src/job/check-asynchronous.ts";
import type { Network } from "../../runtime/mailbox.ts";
import { type GenerationSpec, type HostPlace, headOf } from "../../threads/generation-spec.ts";
import type { ThreadTask } from "../../threads/thread-program.ts";
import type { ThreadPlace } from "../thread-actor.ts";
import type { TrainerSeat } from "./trainer-seat.ts";

/** The memory and counts of a parameter server, which outlive it if it is killed. */
export interface ServerSeat {
  /** `sparse:1`, `dense:0`. */
  readonly name: string;
  readonly role: "sparse" | "dense";
  readonly index: number;
  readonly device: number;
  /** At most one thread has the seat. */
  readonly place: ThreadPlace;
  readonly memory: ServerMemory;
  /** The updates of its threads until each cut that they saved, or began from. */
  readonly updatesAt: Map<number, number>;
}

/** The seats of the servers on a host; the dense server is on the first device. */
export function serverSeats(spec: GenerationSpec, { first, count }: HostPlace): ServerSeat[] {
  const { job, hosts, devices, fromStep } = spec;
  const servers = serversOf(asynchronousOf(job), hosts.length, devices);
  const seatOf = (role: ServerSeat["role"], index: number, device: number): ServerSeat => {
    const place = { lastEnded: Promise.resolve() };
    const own = { memory: createServerMemory(), updatesAt: new Map([[fromStep, 0]]) };
    return { name: `${role}:${index}`, role, index, device, place, ...own };
  };
  const sparse = Array.from({ length: servers }, (_, index) => {
    return seatOf("sparse", index, Math.floor((index * devices) / servers));
  });
  return [...sparse, seatOf("dense", 0, 0)].filter(
    ({ device }) => device >= first && device < first + count,
  );
}

/** The inputs that all threads of a generation share. */
export interface TaskPlace {
  readonly spec: GenerationSpec;
  /** The spec, for threads. */
  readonly shared: SharedArrayBuffer;
  readonly network: Pick<Network, "cluster" | "connection">;
}

/** The task of a server's thread. `starts`: weights whose mean the center begins with. */
export function serverTask(
  { spec, shared, network: { cluster, connection } }: TaskPlace,
  { role, index, memory }: ServerSeat,
  starts: readonly SharedArrayBuffer[],
): ThreadTask {
  const own = { ...memory, spec: shared };
  return { program: role, spec: headOf(spec), index, memory: own, starts, cluster, connection };
}

/** The tasks of a trainer's threads: those that train, then the one that reads samples. */
export function trainerTasks(
  { spec, shared, network: { cluster, connection } }: TaskPlace,
  { device: index, threads, memory, fromSteps }: TrainerSeat,
): { name: string; task: ThreadTask }[] {
  const fromStep = Math.min(...fromSteps);
  const own = { spec: headOf(spec), index, memory: { ...memory, spec: shared }, fromStep };
  const training = Array.from({ length: threads }, (_, thread) => ({
    name: `trainer-${index}-${thread}`,
    task: { program: "trainer" as const, ...own, thread, cluster, connection },
  }));
  return [
    ...training,
    { name: `samples-${index}`, task: { program: "samples", ...own, fromSteps } },
  ];
}
