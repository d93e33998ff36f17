// Asks the object service of the process from a thread that blocks: starts it where there is none,
// and starts another where it has died, whose open requests then have no answer.
//
// Invariants
//   P1. A thread waits for an answer only while the service beats.
//   P2. Of the threads that find the service dead, one starts the next: it raised the epoch.

import { InputUnusableError } from "../errors/errors.ts";
import { entryFile } from "../ports/entry-file.ts";
import { openThread, seatOfThreads } from "../ports/launcher.ts";
import {
  askToStart,
  beatNow,
  isFirstThread,
  sayOn,
  seatWords,
  serviceChannel,
} from "../ports/process-seat.ts";
import type { RequestPort } from "./blocking-store.ts";
import type { StoreEnvironment } from "./environment.ts";
import { jittered } from "./later-store.ts";
import { answerBytesMax, noAnswer, type StoreAnswer, type StoreRequest } from "./requests.ts";
import { sumHeader } from "./s3-address.ts";
import { newReply, readReply, type ServiceRequest, waitForReply } from "./service-messages.ts";

const entry = entryFile("threads", "src/objects/object-service.js");

/** A service that did not beat for so long is dead, or as good as dead. */
const silentMs = 3000;
/** How often a thread that waits looks for the beat. */
const lookMs = 500;
/** A thread starts the service itself if the process's first thread does not, being blocked. */
const startMs = 1000;
/** Deadline of the start. */
const startMsMax = 30_000;
/** Deadline of an answer, for which requests of many threads may wait in line. */
const answerMsMax = 10 * 60_000;

/** Where requests go. */
interface ServiceTarget {
  readonly address: string;
  readonly env: StoreEnvironment;
  readonly attemptMs: number;
}

export function servicePort(target: ServiceTarget): RequestPort {
  const seat = seatOfThreads();
  return {
    send(request) {
      const epoch = serviceOf(seat);
      if (epoch === undefined) return () => noAnswer("the thread of object stores did not start");
      const isList = request.method === "GET" && request.bytesMax === undefined;
      const reply = newReply(isList ? answerBytesMax : 0);
      const object = request.bytesMax === undefined ? undefined : shared(request.bytesMax);
      const asked: ServiceRequest = { ...target, request: sharing(request), reply, object };
      sayOn(serviceChannel(seat, epoch), asked);
      return () => answerTo(seat, epoch, asked);
    },
    pause: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, jittered(ms)),
    close() {}, // The service serves others.
  };
}

function shared(bytes: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(bytes));
}

/**
 * The request with its body in shared memory, and the body's hash: half of the work of sending it,
 * of which the service would else do that of all threads.
 */
function sharing(request: StoreRequest): StoreRequest {
  const { body, headers } = request;
  if (body === undefined) return request;
  const isShared = body.buffer instanceof SharedArrayBuffer;
  const copy = isShared ? body : shared(body.length);
  if (!isShared) copy.set(body);
  return { ...request, body: copy, headers: { ...sumHeader(copy), ...headers } };
}

/** Whether a service beats (P1). */
function beats(seat: Int32Array, epoch: number): boolean {
  if (Atomics.load(seat, seatWords.epoch) !== epoch) return false;
  return ((beatNow() - Atomics.load(seat, seatWords.beat)) & 0x7fff_ffff) < silentMs;
}

/** The number of the service, started if there is none; undefined: it did not start in time. */
function serviceOf(seat: Int32Array): number | undefined {
  for (const beganMs = performance.now(); performance.now() - beganMs < startMsMax; ) {
    const epoch = Atomics.load(seat, seatWords.epoch);
    if (epoch > 0 && Atomics.load(seat, seatWords.ready) === epoch && beats(seat, epoch)) {
      return epoch;
    }
    const isStarting = epoch > 0 && Atomics.load(seat, seatWords.ready) !== epoch;
    if (isStarting && beats(seat, epoch)) waitUntilReady(seat, epoch, lookMs);
    // P2
    else if (Atomics.compareExchange(seat, seatWords.epoch, epoch, epoch + 1) === epoch) {
      Atomics.store(seat, seatWords.beat, beatNow()); // The start has its time.
      startService(seat, epoch + 1);
    }
  }
  return undefined;
}

function startService(seat: Int32Array, epoch: number): void {
  const isFirst = isFirstThread(seat);
  if (!isFirst) askToStart(seat, { entry: entry.href, epoch });
  if (isFirst || !waitUntilReady(seat, epoch, startMs)) {
    openThread(entry, { workerData: { seat, epoch }, name: "objects" }).unref();
    waitUntilReady(seat, epoch, startMsMax);
  }
}

function waitUntilReady(seat: Int32Array, epoch: number, ms: number): boolean {
  const before = Atomics.load(seat, seatWords.ready);
  if (before !== epoch) Atomics.wait(seat, seatWords.ready, before, ms);
  return Atomics.load(seat, seatWords.ready) === epoch;
}

function answerTo(seat: Int32Array, epoch: number, asked: ServiceRequest): StoreAnswer {
  for (const beganMs = performance.now(); !waitForReply(asked.reply, lookMs); ) {
    if (!beats(seat, epoch)) return noAnswer("the thread of object stores has died");
    if (performance.now() - beganMs > answerMsMax) {
      return noAnswer(`no answer within ${answerMsMax} ms`);
    }
  }
  return readReply(asked, (path, message) => new InputUnusableError(path, message));
}
