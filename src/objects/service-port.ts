// Sends the requests of a blocking thread to the object service of its process. Starts the service
// if there is none, and starts another one if it has died; open requests then get no response.
//
// Invariants
//   P1. A thread waits for a response only while the service sends heartbeats.
//   P2. Of the threads that find the service dead, the one that increments the epoch restarts it.

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

/** A service without a heartbeat for this time counts as dead. */
const silentMs = 3000;
/** Interval at which a waiting thread checks the heartbeat. */
const lookMs = 500;
/** Wait for the process's first thread, which may be blocked; then a thread starts the service. */
const startMs = 1000;
/** Deadline of the start. */
const startMsMax = 30_000;
/** Deadline of a response; requests of many threads may be queued before it. */
const answerMsMax = 10 * 60_000;

/** The store to which a port sends its requests. */
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
    close() {}, // The service also serves other threads.
  };
}

function shared(bytes: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(bytes));
}

/**
 * The request with its body in shared memory and with the body's hash. Hashing is half of the work
 * of a request, and the service would otherwise do it for all threads.
 */
function sharing(request: StoreRequest): StoreRequest {
  const { body, headers } = request;
  if (body === undefined) return request;
  const isShared = body.buffer instanceof SharedArrayBuffer;
  const copy = isShared ? body : shared(body.length);
  if (!isShared) copy.set(body);
  return { ...request, body: copy, headers: { ...sumHeader(copy), ...headers } };
}

/** Whether the service with this number is the current one, and has sent a heartbeat. P1 */
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
      Atomics.store(seat, seatWords.beat, beatNow()); // The new service gets time to start.
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
