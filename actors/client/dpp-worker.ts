// A preprocessing worker in its own process: receives announcements of runs that need workers, and
// makes splits for them until it is closed. It has no state: it may be killed at any time, and
// another worker redoes its unfinished split.
//
//   here ──▶ (session) ──▶ serving ──a few seconds without `here`──▶ the run is over

import { hostname } from "node:os";
import { RequestFailedError, VersionMismatchError } from "../../src/errors/errors.ts";
import {
  decodeFrame,
  hereSubject,
  masterSubject,
  type SplitFrames,
  type SplitPlace,
} from "../../src/exchange/splits/split-frames.ts";
import { serveSplits } from "../../src/exchange/splits/split-worker.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { packageVersion } from "../../src/ports/entry-file.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import { createSplitMaker } from "../threads/data/split-maker.ts";
import type { StreamOrigins } from "../threads/data/stream-origins.ts";
import { type ConnectionOptions, transportTo } from "./connect.ts";

export type DppWorkerOptions = Omit<ConnectionOptions, "tenant"> & {
  /** Called when the worker starts to serve a generation of a run, and when that is over. */
  readonly onRun?: (run: string, generation: number, state: "serving" | "over") => void;
  /** Called with the reason if the worker cannot serve a master. */
  readonly onError?: (error: Error) => void;
};

/** A run is over if its master was silent for this long: it announces twice a second. */
const silenceMs = 5000;
const sessionMs = 2000;

interface Served {
  seenMs: number;
  isOver: boolean;
  readonly ended: Promise<void>;
}

/**
 * A preprocessing worker that serves all runs of a cluster. Close it, or declare it with
 * `await using`.
 */
export class DppWorker implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #cluster: string;
  readonly #options: DppWorkerOptions;
  readonly #clock: Clock = realClock;
  readonly #served = new Map<string, Served>();
  readonly #refused = new Set<string>();
  readonly #name = `${hostname()}:${process.pid}`;
  #starts = 0;
  #isDraining = false;

  private constructor(transport: Transport, cluster: string, options: DppWorkerOptions) {
    this.#transport = transport;
    this.#cluster = cluster;
    this.#options = options;
    transport.subscribe(hereSubject(cluster), (frame) => this.#receive(decodeFrame("here", frame)));
  }

  /**
   * Connects a worker to a cluster. @throws InvalidOptionError, TransportLostError if the broker is
   * unreachable
   */
  static async join(options: DppWorkerOptions): Promise<DppWorker> {
    const { onRun: _run, onError: _error, ...connection } = options;
    const { transport, cluster } = await transportTo(connection, "osiris-dpp-worker");
    return new DppWorker(transport, cluster, options);
  }

  /** Finishes and sends the splits in progress, and ends. Safe to call twice. */
  async close(): Promise<void> {
    this.#isDraining = true;
    for (const one of this.#served.values()) one.isOver = true;
    await Promise.all([...this.#served.values()].map(({ ended }) => ended));
    await this.#transport.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #receive({ run, generation, version }: SplitFrames["here"]): void {
    const key = `${run} ${generation}`;
    const known = this.#served.get(key);
    if (known !== undefined) known.seenMs = this.#clock.now();
    if (known !== undefined || this.#isDraining || this.#refused.has(key)) return;
    if (version !== packageVersion()) {
      this.#refused.add(key);
      this.#options.onError?.(new VersionMismatchError(version, packageVersion()));
      return;
    }
    const place = { cluster: this.#cluster, run, generation };
    const served: { seenMs: number; isOver: boolean; ended: Promise<void> } = {
      seenMs: this.#clock.now(),
      isOver: false,
      ended: Promise.resolve(),
    };
    this.#served.set(key, served);
    served.ended = this.#serve(place, served)
      .catch((error: Error) => this.#options.onError?.(error))
      .finally(() => this.#served.delete(key));
  }

  async #serve(place: SplitPlace, served: Pick<Served, "seenMs" | "isOver">): Promise<void> {
    const { run, generation } = place;
    const isOver = () => served.isOver || this.#clock.now() - served.seenMs > silenceMs;
    const origins = await this.#sessionOf(place, isOver);
    if (origins === undefined) return;
    this.#options.onRun?.(run, generation, "serving");
    const maker = createSplitMaker(origins, realDisk);
    const worker = `${this.#name}.${this.#starts++}`;
    const [transport, clock] = [this.#transport, this.#clock];
    try {
      await serveSplits({ transport, place, worker, clock, maker, isOver });
    } finally {
      maker.close();
      this.#options.onRun?.(run, generation, "over");
    }
  }

  /**
   * Requests the session, which says what a run's splits are made from; undefined: the run is over.
   */
  async #sessionOf(place: SplitPlace, isOver: () => boolean): Promise<StreamOrigins | undefined> {
    while (!isOver()) {
      try {
        const subject = masterSubject(place, "session");
        const how = { deadlineMs: sessionMs };
        const answer = await this.#transport.request(subject, new Uint8Array(), how);
        return decodeFrame("session", answer).session as StreamOrigins;
      } catch (error) {
        if (!(error instanceof RequestFailedError)) throw error;
      }
    }
    return undefined;
  }
}
