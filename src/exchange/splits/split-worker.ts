// The worker's side of the preprocessing service: requests a split, makes it, sends it to its
// reader, and repeats. A worker keeps no state of a run: any other worker can make its splits.

import { RequestFailedError, recordError } from "../../errors/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Transport } from "../../wire/messages/transport.ts";
import {
  decodeFrame,
  encodeFrame,
  masterSubject,
  partHeaders,
  readerSubject,
  type Split,
  type SplitPlace,
} from "./split-frames.ts";
import type { ShelfWriter } from "./split-shelves.ts";

export interface SplitMaker {
  /** Makes the blocks of a split, and counts its samples. @throws InputUnusableError and others */
  make(split: Split): Promise<{ readonly bytes: Uint8Array; readonly samples: number }>;
  close(): void;
}

export interface SplitWorkerOptions {
  readonly transport: Transport;
  readonly place: SplitPlace;
  /** The worker's name, unique among the workers of the run. */
  readonly worker: string;
  readonly clock: Clock;
  readonly maker: SplitMaker;
  /** Whether the worker must end; it finishes the split that it has begun. */
  readonly isOver: () => boolean;
  /** The readers on the worker's own host; left out: it belongs to no host. */
  readonly near?: NearReaders | undefined;
}

/** The readers that share memory with a worker (split-shelves.ts). */
export interface NearReaders extends ShelfWriter {
  has(reader: number): boolean;
}

/**
 * The master answers a request after half a second if there is no split; no answer means a lost
 * frame.
 */
export const leaseMs = 500;
const requestMs = 4 * leaseMs;
/**
 * How often a worker reports that it is alive while it makes a split; also the pause before a
 * failed request is repeated.
 */
const againMs = 200;
/** Most bytes of a part. */
const partBytesMax = 256 * 1024;
const headerRoom = 1024;

/** Serves one run's splits until `isOver`. */
export async function serveSplits(options: SplitWorkerOptions): Promise<void> {
  const { transport, place, worker, clock, maker, isOver, near } = options;
  let [busyMs, fromMs] = [0, clock.now()];
  while (!isOver()) {
    const nowMs = clock.now();
    const worked = { busyMs, forMs: nowMs - fromMs };
    [busyMs, fromMs] = [0, nowMs];
    const { lease, reader, split } = await requestSplit(options, worked);
    if (lease === undefined || reader === undefined || split === undefined) continue;
    const beginMs = clock.now();
    const done = await during(options, lease, async () => {
      try {
        const { bytes, samples } = await maker.make(split);
        if (near?.has(reader) === true) await near.send(reader, split, bytes);
        else await send(options, reader, split, bytes);
        return { worker, lease, samples };
      } catch (error) {
        return { worker, lease, samples: 0, error: recordError(error) };
      }
    });
    busyMs += clock.now() - beginMs;
    const { payload, headers } = encodeFrame("done", done);
    transport.publish(masterSubject(place, "done"), payload, { headers });
  }
}

/** Requests a split. A silent master may be about to be replaced: the request is then repeated. */
async function requestSplit(
  { transport, place, worker, clock }: SplitWorkerOptions,
  worked: { readonly busyMs: number; readonly forMs: number },
) {
  const { payload, headers } = encodeFrame("lease", { worker, ...worked });
  const how = { headers, deadlineMs: requestMs };
  try {
    return decodeFrame(
      "leased",
      await transport.request(masterSubject(place, "lease"), payload, how),
    );
  } catch (error) {
    if (!(error instanceof RequestFailedError)) throw error;
    await new Promise<void>((resume) => clock.after(againMs, resume));
    return {};
  }
}

/** Sends `working` heartbeats while `work` runs. */
async function during<Result>(
  { transport, place, worker, clock }: SplitWorkerOptions,
  lease: number,
  work: () => Promise<Result>,
): Promise<Result> {
  let cancel = () => {};
  const renew = () => {
    const { payload, headers } = encodeFrame("working", { worker, lease });
    transport.publish(masterSubject(place, "working"), payload, { headers });
    cancel = clock.after(againMs, renew);
  };
  cancel = clock.after(againMs, renew);
  try {
    return await work();
  } finally {
    cancel();
  }
}

/** Sends the blocks part by part, no faster than the broker takes them. */
async function send(
  { transport, place }: SplitWorkerOptions,
  reader: number,
  split: Split,
  bytes: Uint8Array,
): Promise<void> {
  const subject = readerSubject(place, reader, "data");
  const partBytes = Math.min(partBytesMax, transport.frameBytesMax - headerRoom);
  for (let at = 0; at < bytes.length; at += partBytes) {
    const part = bytes.subarray(at, at + partBytes);
    const headers = partHeaders({ split, at, bytes: bytes.length });
    const { bytes: pending, bytesMax } = transport.pending();
    if (pending + part.length > bytesMax / 2) await transport.flush();
    transport.publish(subject, part, { headers, isLent: true });
  }
}
