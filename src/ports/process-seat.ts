// Shared words by which the threads of a process agree on one thread that serves all of them. The
// first thread of the process makes the words and starts the service, because a thread ends with
// the thread that started it.

import { randomInt } from "node:crypto";
import { BroadcastChannel, getEnvironmentData, setEnvironmentData } from "node:worker_threads";

/** Indices of the words. */
export const seatWords = {
  /** Number of the newest service, which may still be starting; 0: none was started. */
  epoch: 0,
  /** Number of the newest service that is ready for requests. */
  ready: 1,
  /** Time of the service's last heartbeat (`beatNow`). */
  beat: 2,
  /** Random number in the names of channels: seats of one process must differ, as in tests. */
  id: 3,
} as const;

/** A request to the first thread of a process to start a service. */
export interface ServiceStart {
  /** URL of the program. */
  readonly entry: string;
  readonly epoch: number;
}

const seatName = "osiris.seat";
/** The seat, if this thread made it: it is then the first thread of the process. */
let made: Int32Array | undefined;

/**
 * The seat of this process. The first call makes it, and must come before the process starts
 * threads; in that thread, `start` then starts a service at the request of any thread.
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
  channel.unref(); // So that the process can exit.
  return seat;
}

/** Whether this is the first thread of the process, which starts services. */
export function isFirstThread(seat: Int32Array): boolean {
  return seat === made;
}

/** Requests the first thread of the process to start a service. */
export function askToStart(seat: Int32Array, request: ServiceStart): void {
  sayOn(startsChannel(seat), request);
}

/** Sends a message to the present listeners of a channel. */
export function sayOn(name: string, message: unknown): void {
  const channel = new BroadcastChannel(name);
  channel.postMessage(message);
  channel.close(); // An open channel would buffer messages of other threads.
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
