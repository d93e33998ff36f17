// A run, as the client that submitted it or asks for it sees it: its status, its events and log,
// its result and model, and what may be asked of it. Each method is a request to the job service.

import { RemoteError, RequestFailedError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import { decodeBody } from "../../src/wire/messages/body.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import { type LoadOptions, loadModel } from "../../storage/model/load-model.ts";
import type { Model } from "../../storage/model/model.ts";
import type { ShardReport } from "../host/shard.ts";
import type { TierReport } from "../host/tier-report.ts";
import { readerPatienceMs } from "../jobs/command-readers.ts";
import {
  type DrainedReader,
  isOverAt,
  type JobMethod,
  type NamedShard,
  type ReplyOf,
  type RunSummary,
} from "../jobs/job-api.ts";
import { checkpointDeadlines } from "../jobs/job-handlers.ts";
import type { RunEvent, RunStatus } from "../run/state/run-events.ts";
import type { RunResult } from "../run/state/run-result.ts";
import type { StreamedEvents } from "./streamed-events.ts";

/** After so long without an answer, JetStream is asked for the events of a run. */
const streamedMs = 1000;

/** How often a follower looks for events that were lost on their way. */
const lookMs = 1000;

/** What a run needs of its client. */
interface Requests {
  request<Method extends JobMethod>(
    method: Method,
    body: unknown,
    patienceMs?: number,
    againMs?: number,
  ): Promise<ReplyOf<Method>>;
}

/** Questions to the actors of a run, for the cluster's operator. */
interface Inspections {
  inspectActor<Report>(what: string, body: unknown): Promise<Report>;
}

/** A line of a run's log: `time`, `level`, `message`, and what it is about. */
export type LogRecord = Readonly<Record<string, unknown>>;

/** One execution of a job. */
export class Run {
  readonly run: string;
  readonly #jobs: Requests & Inspections;
  readonly #transport: Transport;
  /** The subject of its events. */
  readonly #events: string;
  readonly #stream: StreamedEvents;
  readonly #clock: Clock;

  constructor(options: {
    client: Requests & Inspections;
    transport: Transport;
    events: string;
    stream: StreamedEvents;
    clock: Clock;
    run: string;
  }) {
    this.run = options.run;
    this.#jobs = options.client;
    this.#transport = options.transport;
    this.#events = options.events;
    this.#stream = options.stream;
    this.#clock = options.clock;
  }

  /** How the run is doing. @throws RemoteError where the cluster does not know it */
  status(): Promise<RunSummary> {
    return this.#jobs.request("status", { run: this.run });
  }

  /**
   * Has it let go of its devices after the current step, with a checkpoint, until it is resumed.
   * Resolves when the cluster has taken it, to how the run is then; run.paused tells when it is
   * done. @throws RemoteError
   */
  async pause(): Promise<RunStatus> {
    return (await this.#jobs.request("pause", { run: this.run })).status;
  }

  /**
   * Has it go on, with the same bits, when it is its turn again; resolves as `pause` does.
   * @throws RemoteError
   */
  async resume(): Promise<RunStatus> {
    return (await this.#jobs.request("resume", { run: this.run })).status;
  }

  /**
   * Has the run make a checkpoint after the current step, besides the checkpoints of its job;
   * resolves once it is committed. @throws RemoteError where the run is not running, or ends before
   */
  async checkpoint(): Promise<{ readonly step: number; readonly digest: string }> {
    const { stepDeadlineMs } = await this.status();
    const patienceMs = checkpointDeadlines * stepDeadlineMs;
    const request = { run: this.run };
    const { step, digest } = await this.#jobs.request("checkpoint", request, patienceMs);
    return { step, digest };
  }

  /**
   * Stops it after the current step, with a checkpoint from which it can go on; resolves as `pause`
   * does. One that is over stays as it is.
   */
  async cancel(): Promise<RunStatus> {
    return (await this.#jobs.request("cancel", { run: this.run })).status;
  }

  /**
   * Lines of the run's log, as its cluster and hosts wrote them: the kept lines, and with `follow`
   * the coming lines until the run is over. Where JetStream has its events, also while the cluster
   * has no leader. @throws RemoteError
   */
  async *logs(options: { readonly follow?: boolean } = {}): AsyncGenerator<LogRecord, void> {
    for (let after = "", isOver = false; ; ) {
      const request = { run: this.run, after, most: 500 };
      const isWaited = options.follow === true;
      const page = await this.#orLater(isWaited, this.#jobs.request("logs", request));
      if (page === undefined) continue;
      const { lines, next } = page;
      yield* lines;
      after = next;
      if (lines.length > 0) continue;
      if (isOver || options.follow !== true) return;
      const status = (await this.#orLater(isWaited, this.status()))?.status;
      isOver = status !== undefined && isOverAt(status); // What it wrote last is still read.
      if (!isOver) await new Promise<void>((resume) => this.#clock.after(lookMs, resume));
    }
  }

  /** Undefined: no leader answers now, and JetStream knows the run. */
  async #orLater<Answer>(isWaited: boolean, asked: Promise<Answer>): Promise<Answer | undefined> {
    try {
      return await asked;
    } catch (error) {
      if (!isWaited || !(error instanceof RequestFailedError)) throw error;
      if ((await this.#stream.read(0, 1))?.length !== 1) throw error;
      return undefined;
    }
  }

  /**
   * Goes on with so many devices after the current step, with the same bits; resolves when the
   * cluster has taken it, and run.scaled tells when it is done. @throws RemoteError: it is over, or
   * there are not so many
   */
  async scale(to: { readonly devices: number }): Promise<void> {
    await this.#jobs.request("scale", { run: this.run, ...to });
  }

  /**
   * What a shard says of itself now: its rows, their heat, its part of the newest checkpoint, and
   * where it is pinned. For the cluster's operator. @throws RemoteError
   */
  inspectShard(shard: number): Promise<ShardReport> {
    return this.#jobs.inspectActor("shard", { run: this.run, shard });
  }

  /**
   * What the tier of a device says of itself: which rows of its cached tables lie where, and how
   * often they are found there. For the cluster's operator. @throws RemoteError
   */
  inspectTier(device: number): Promise<TierReport> {
    return this.#jobs.inspectActor("tier", { run: this.run, device });
  }

  /**
   * Writes the rows below a device that lie in host memory alone to its disk, now and not when they
   * are evicted; resolves to how many they were. No bit depends on it. @throws RemoteError
   */
  async flushTier(device: number): Promise<number> {
    const { rest } = deadlinesOf(await this.status());
    return (await this.#jobs.request("flush", { run: this.run, device }, rest)).rows;
  }

  /**
   * Moves a shard to another device after the current step, with the same bits, and pins it there:
   * no plan puts it elsewhere, as long as the run has that device. Resolves when the cluster has
   * taken it; run.moved tells when it is done. `shard`: its number, as the cluster's report has it.
   * @throws RemoteError where there is no such shard or device, or no room, or the shard is frozen
   */
  async moveShard(shard: number, to: { readonly device: number }): Promise<NamedShard> {
    return (await this.#jobs.request("move", { run: this.run, shard, ...to })).shard;
  }

  /**
   * Holds a shard on the device where it is: neither a plan nor a user moves it before it is
   * thawed. It is trained as before. @throws RemoteError
   */
  async freezeShard(shard: number): Promise<NamedShard> {
    return (await this.#jobs.request("freeze", { run: this.run, shard })).shard;
  }

  /** Lifts what `moveShard` and `freezeShard` have pinned of a shard. @throws RemoteError */
  async thawShard(shard: number): Promise<NamedShard> {
    return (await this.#jobs.request("thaw", { run: this.run, shard })).shard;
  }

  /**
   * Has the readers of the run together serve at most so many samples to train on a second, with
   * the same bits; 0 lifts the limit. It holds until then, whatever fails, joins or is restored.
   * Resolves when the cluster has taken it; run.limited tells when the readers have.
   * @throws RemoteError where it is so low that steps would reach their deadline
   */
  async limitReaders(to: { readonly samplesPerSecond: number }): Promise<void> {
    await this.#jobs.request("rate", { run: this.run, ...to });
  }

  /**
   * Has a reader finish the batch that it reads and give its place to a fresh thread, which reads
   * on where it was, with the same bits: no failure, and no restart counted. Resolves once it is
   * done. `reader`: its number, as the cluster's report has it.
   * @throws RemoteError where there is no such reader, or the run is not running
   */
  async drainReader(reader: number): Promise<DrainedReader> {
    const patienceMs = readerPatienceMs(await this.status());
    return await this.#jobs.request("drain", { run: this.run, reader }, patienceMs);
  }

  /**
   * What happens to the run, from its first event, in order and without gaps, until it is over.
   * Events that a broken connection lost are asked for again. Numbers are left out before
   * run.renumbered only, and where the oldest of very many are forgotten. While there is no leader,
   * as far as JetStream has them.
   */
  async *events(options: { readonly since?: number } = {}): AsyncGenerator<RunEvent, void> {
    let next = options.since ?? 0;
    const arrived = new Map<number, RunEvent>();
    let wake = () => {};
    const subscription = this.#transport.subscribe(this.#events, (frame) => {
      const event = decodeBody(frame) as RunEvent;
      if (event.seq >= next) arrived.set(event.seq, event);
      wake();
    });
    try {
      for (;;) {
        const missing = !arrived.has(next);
        if (missing) {
          const events = await this.#kept(next, 100);
          for (const event of events) arrived.set(event.seq, event);
          // Numbers before run.renumbered are nobody's; old events are forgotten.
          next = Math.max(next, events[0]?.seq ?? next);
        }
        for (let event = arrived.get(next); event !== undefined; event = arrived.get(next)) {
          arrived.delete(next);
          next++;
          yield event;
          if (event.type === "run.finished" || event.type === "run.failed") return;
        }
        await new Promise<void>((resume) => {
          const cancel = this.#clock.after(lookMs, resume);
          wake = () => {
            cancel();
            resume();
          };
          if (arrived.size > 0) wake();
        });
      }
    } finally {
      subscription.unsubscribe();
    }
  }

  /** What happened so far, from event `since` on, as far as it is kept. @throws RemoteError */
  async *past(options: { readonly since?: number } = {}): AsyncGenerator<RunEvent, void> {
    for (let since = options.since ?? 0; ; ) {
      const events = await this.#kept(since, 500);
      yield* events;
      const last = events.at(-1);
      if (last === undefined) return;
      since = last.seq + 1;
    }
  }

  /** As the job service tells them; where it does not answer, or not of this run, JetStream. */
  async #kept(since: number, most: number): Promise<readonly RunEvent[]> {
    const request = { run: this.run, since, most };
    try {
      return (await this.#jobs.request("events", request, undefined, streamedMs)).events;
    } catch (error) {
      const isUnknown = error instanceof RemoteError && error.code === "INVALID_OPTION";
      const isBusy = error instanceof RemoteError && error.code === "TOO_MANY_REQUESTS";
      if (!isUnknown && !isBusy && !(error instanceof RequestFailedError)) throw error;
      const events = isBusy ? undefined : await this.#stream.read(since, most);
      if (events !== undefined && events.length > 0) return events;
      if (isUnknown) throw error;
      if (events !== undefined && since > 0) return events; // One that it knows, and no more yet.
    }
    return (await this.#jobs.request("events", request)).events;
  }

  /** What came of it. @throws RemoteError with the run's own code, where it failed */
  async result(): Promise<RunResult> {
    for await (const event of this.events()) {
      if (event.type === "run.finished") return event.result;
      if (event.type === "run.failed") throw new RemoteError(event.error);
    }
    throw new RequestFailedError(this.run, "its events ended without a result");
  }

  /**
   * The model that came of it, once the run is over; where this process sees the checkpoint
   * directory under the name that the job gives it. @throws as `result` and `loadModel` do
   */
  async model(options: Omit<LoadOptions, "manifest"> = {}): Promise<Model> {
    const { directory, manifest } = await this.result();
    return loadModel(directory, { ...options, manifest });
  }
}
