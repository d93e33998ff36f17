// Words in shared memory that all threads of a process have, by which they agree on one thread that
// serves them all. The first thread of a process makes them, and starts the service, because a
// thread that another thread starts ends with it.

import { randomInt } from "node:crypto";
import { BroadcastChannel, getEnvironmentData, setEnvironmentData } from "node:worker_threads";

/** Places of the words. */
export const seatWords = {
  /** Number of the service that is meant; 0: none yet. */
  epoch: 0,
  /** Number of the service that serves. */
  ready: 1,
  /** When the service was last alive, in milliseconds of the machine's monotonic clock. */
  beat: 2,
  /** Distinguishes the seats of a process whose threads do not know each other, as in tests. */
  id: 3,
} as const;

/** A request to the first thread of a process to start a service. */
export interface ServiceStart {
  /** URL of the program. */
  readonly entry: string;
  readonly epoch: number;
}

const seatName = "osiris.seat";
/** The seat that this thread made, being the first of its process. */
let made: Int32Array | undefined;

/**
 * The seat of this process. The first thread that asks, which must be the first that starts others,
 * makes it; `start` starts a service there when a thread asks for one.
 */
export function seatOf(start: (seat: Int32Array, request: ServiceStart) => void): Int32Array {
  const given: unknown = getEnvironmentData(seatName);
  if (given instanceof Int32Array) return given;
  const seat = new Int32Array(new SharedArrayBuffer(16));
  seat[seatWords.id] = randomInt(2 ** 31 - 1);
  made = seat;
  setEnvironmentData(seatName, seat);
  const channel = new BroadcastChannel(startsChannel(seat));
  channel.onmessage = (event) => start(seat, (event as { data: ServiceStart }).data);
  channel.unref(); // The process may end.
  return seat;
}

/** Whether this thread is the first of the process, which starts services. */
export function isFirstThread(seat: Int32Array): boolean {
  return seat === made;
}

/** Asks the first thread of the process to start a service. */
export function askToStart(seat: Int32Array, request: ServiceStart): void {
  sayOn(startsChannel(seat), request);
}

/** Sends a message to all who listen to a channel now. */
export function sayOn(name: string, message: unknown): void {
  const channel = new BroadcastChannel(name);
  channel.postMessage(message);
  channel.close(); // An open one would collect the messages of others.
}

function startsChannel(seat: Int32Array): string {
  return `osiris.${seat[seatWords.id]}.starts`;
}

/** The channel of requests to a service. */
export function serviceChannel(seat: Int32Array, epoch: number): string {
  return `osiris.${seat[seatWords.id]}.service.${epoch}`;
}

/** The monotonic clock of the machine, in milliseconds modulo 2^31: the same in all threads. */
export function beatNow(): number {
  return Number(BigInt.asUintN(31, process.hrtime.bigint() / 1_000_000n));
}
