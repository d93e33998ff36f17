// A run as its client sees it: status, events, log, result and model, and the operations on it.
// Each method is a request to the job service.

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
import { collectTimelines, type RunTimelines, type TimelinesOptions } from "./run-timelines.ts";
import { SilenceWatch } from "./silence-watch.ts";
import type { StreamedEvents } from "./streamed-events.ts";

/** Wait for an answer of the job service before the events are read from JetStream instead. */
const streamedMs = 1000;

/** How often a follower polls for events that were lost on the way. */
const lookMs = 1000;

/** The part of the client that a run uses. */
interface Requests {
  request<Method extends JobMethod>(
    method: Method,
    body: unknown,
    patienceMs?: number,
    againMs?: number,
  ): Promise<ReplyOf<Method>>;
  /** Whether the cluster has answered a request. Without any answer its name may be wrong. */
  readonly hasAnswered: boolean;
}

/** Requests to the actors of a run, for the cluster's operator. */
interface Inspections {
  inspectActor<Report>(what: string, body: unknown): Promise<Report>;
}

/** Options of following a run. */
interface FollowOptions {
  /** Receives sentences about a cluster that does not answer, as without its broker. */
  readonly onSilence?: (sentence: string) => void;
}

/** A line of a run's log: `time`, `level`, `message`, and context fields. */
export type LogRecord = Readonly<Record<string, unknown>>;

/** One execution of a job. A method throws RequestFailedError where the cluster does not answer. */
export class Run {
  /** Name of the run. */
  readonly run: string;
  readonly #jobs: Requests & Inspections;
  readonly #transport: Transport;
  /** The subject of the run's events. */
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

  /** Returns the run's status. @throws RemoteError if the cluster does not know the run */
  status(): Promise<RunSummary> {
    return this.#jobs.request("status", { run: this.run });
  }

  /**
   * Pauses the run: after the current step it makes a checkpoint and releases its devices, until it
   * is resumed. Resolves to the run's status when the cluster has accepted the request; the event
   * run.paused reports completion. @throws RemoteError
   */
  async pause(): Promise<RunStatus> {
    return (await this.#jobs.request("pause", { run: this.run })).status;
  }

  /**
   * Resumes the run, with the same bits, when it is its turn in the queue; resolves as `pause`
   * does.
   * @throws RemoteError
   */
  async resume(): Promise<RunStatus> {
    return (await this.#jobs.request("resume", { run: this.run })).status;
  }

  /**
   * Makes a checkpoint after the current step, in addition to those of the job; resolves once it is
   * committed. @throws RemoteError if the run is not running, or ends first
   */
  async checkpoint(): Promise<{ readonly step: number; readonly digest: string }> {
    const { stepDeadlineMs } = await this.status();
    const patienceMs = checkpointDeadlines * stepDeadlineMs;
    const request = { run: this.run };
    const { step, digest } = await this.#jobs.request("checkpoint", request, patienceMs);
    return { step, digest };
  }

  /**
   * Cancels the run after the current step, with a checkpoint from which it can continue; resolves
   * as `pause` does. Has no effect on a run that is over.
   */
  async cancel(): Promise<RunStatus> {
    return (await this.#jobs.request("cancel", { run: this.run })).status;
  }

  /**
   * Lines of the run's log, as its cluster and hosts wrote them: the stored lines, and with
   * `follow` new lines until the run is over. Following survives a silent cluster as `events` does,
   * and any time without a leader if JetStream has the run's events. @throws RemoteError
   */
  async *logs(
    options: FollowOptions & { readonly follow?: boolean } = {},
  ): AsyncGenerator<LogRecord, void> {
    const silence = this.#silenceWatch(options);
    const isStreamed = async () => (await this.#stream.read(0, 1))?.length === 1;
    const later = <Answer>(answer: Promise<Answer>) =>
      options.follow === true ? silence.outlast(answer, `logs ${this.run} -f`, isStreamed) : answer;
    for (let after = "", isOver = false; ; ) {
      const request = { run: this.run, after, most: 500 };
      const page = await later(this.#jobs.request("logs", request));
      if (page === undefined) continue;
      const { lines, next } = page;
      yield* lines;
      after = next;
      if (lines.length > 0) continue;
      if (isOver || options.follow !== true) return;
      const status = (await later(this.status()))?.status;
      isOver = status !== undefined && isOverAt(status); // The last lines are still read.
      if (!isOver) await new Promise<void>((resume) => this.#clock.after(lookMs, resume));
    }
  }

  #silenceWatch({ onSilence }: FollowOptions): SilenceWatch {
    const hasAnswered = () => this.#jobs.hasAnswered;
    const { run } = this;
    const [transport, clock] = [this.#transport, this.#clock];
    return new SilenceWatch({ run, transport, clock, hasAnswered, onSilence });
  }

  /**
   * Changes the number of devices after the current step, with the same bits. Resolves when the
   * cluster has accepted the request, to the devices that the run will have: at most the job's
   * slices. The event run.scaled reports completion. @throws RemoteError if the run is over, or
   * there are not enough devices
   */
  async scale(to: { readonly devices: number }): Promise<{ readonly devices: number }> {
    const { devices } = await this.#jobs.request("scale", { run: this.run, ...to });
    return { devices };
  }

  /**
   * Reports a shard's state: its rows, their heat, its part of the newest checkpoint, and where it
   * is pinned. For the cluster's operator. @throws RemoteError
   */
  inspectShard(shard: number): Promise<ShardReport> {
    return this.#jobs.inspectActor("shard", { run: this.run, shard });
  }

  /**
   * Collects the timelines of the run's threads over its last steps, or over its next ones.
   * `chromeTrace` converts them to a trace file. For the cluster's operator.
   * @throws RemoteError, TraceMissingError where no host keeps a step
   */
  timelines(options: TimelinesOptions = {}): Promise<RunTimelines> {
    return collectTimelines(this.run, options, {
      ask: (body) => this.#jobs.inspectActor("timelines", body),
      clock: this.#clock,
      isOver: async () => isOverAt((await this.status()).status),
    });
  }

  /**
   * Reports the state of a device's tier: in which memory the rows of its cached tables lie, and
   * the hit rates. For the cluster's operator. @throws RemoteError
   */
  inspectTier(device: number): Promise<TierReport> {
    return this.#jobs.inspectActor("tier", { run: this.run, device });
  }

  /**
   * Writes the dirty rows of a device's backing store from host memory to its disk now, instead of
   * at their eviction; resolves to their number. No bit of the training depends on it. @throws
   * RemoteError
   */
  async flushTier(device: number): Promise<number> {
    const { persist } = deadlinesOf(await this.status());
    return (await this.#jobs.request("flush", { run: this.run, device }, persist)).rows;
  }

  /**
   * Moves a shard to another device after the current step, with the same bits, and pins it there:
   * no plan moves it as long as the run has that device. Resolves when the cluster has accepted the
   * request; the event run.moved reports completion. `shard`: its number in the cluster's report.
   * @throws RemoteError if there is no such shard or device, or no room, or the shard is frozen
   */
  async moveShard(shard: number, to: { readonly device: number }): Promise<NamedShard> {
    return (await this.#jobs.request("move", { run: this.run, shard, ...to })).shard;
  }

  /**
   * Freezes a shard on its device: neither a plan nor a user moves it before it is thawed. Its
   * training continues. @throws RemoteError
   */
  async freezeShard(shard: number): Promise<NamedShard> {
    return (await this.#jobs.request("freeze", { run: this.run, shard })).shard;
  }

  /** Removes the pins that `moveShard` and `freezeShard` set on a shard. @throws RemoteError */
  async thawShard(shard: number): Promise<NamedShard> {
    return (await this.#jobs.request("thaw", { run: this.run, shard })).shard;
  }

  /**
   * Limits the rate at which the run's readers together serve training samples, with the same bits;
   * 0 lifts the limit. The limit persists across failures, joins and restores. Resolves when the
   * cluster has accepted the request; the event run.limited reports completion.
   * @throws RemoteError if the rate is so low that steps would exceed their deadline
   */
  async limitReaders(to: { readonly samplesPerSecond: number }): Promise<void> {
    await this.#jobs.request("rate", { run: this.run, ...to });
  }

  /**
   * Drains a reader: it finishes its batch, and a fresh thread continues at its position, with the
   * same bits. Counts as no failure and no restart. Resolves on completion. `reader`: its number in
   * the cluster's report.
   * @throws RemoteError if there is no such reader, or the run is not running
   */
  async drainReader(reader: number): Promise<DrainedReader> {
    const patienceMs = readerPatienceMs(await this.status());
    return await this.#jobs.request("drain", { run: this.run, reader }, patienceMs);
  }

  /**
   * The run's events, from the first on, in order and without gaps, until the run is over. Events
   * that a broken connection lost are requested again. Numbers are skipped only before
   * run.renumbered, and where the cluster has dropped the oldest events. While there is no leader,
   * events come from JetStream, as far as it has them. A cluster that has answered this client may
   * be silent for 15 minutes, as while its broker is away: `onSilence` receives sentences about it.
   * @throws RequestFailedError after that, RemoteError if the cluster does not know the run
   */
  async *events(
    options: FollowOptions & { readonly since?: number } = {},
  ): AsyncGenerator<RunEvent, void> {
    const silence = this.#silenceWatch(options);
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
        const from = next;
        const missing = !arrived.has(next);
        if (missing) {
          const command = `events ${this.run} --since ${next} -f`;
          const events = (await silence.outlast(this.#kept(next, 100), command)) ?? [];
          for (const event of events) arrived.set(event.seq, event);
          // Numbers before run.renumbered are unused; old events have been dropped.
          next = Math.max(next, events[0]?.seq ?? next);
          for (const seq of arrived.keys()) if (seq < next) arrived.delete(seq);
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
          // Without progress the cluster does not know the missing event either: it needs a pause.
          if (arrived.size > 0 && next > from) wake();
        });
      }
    } finally {
      subscription.unsubscribe();
    }
  }

  /**
   * The events so far, from event `since` on, as far as the cluster keeps them. @throws RemoteError
   */
  async *past(options: { readonly since?: number } = {}): AsyncGenerator<RunEvent, void> {
    for (let since = options.since ?? 0; ; ) {
      const events = await this.#kept(since, 500);
      yield* events;
      const last = events.at(-1);
      if (last === undefined) return;
      since = last.seq + 1;
    }
  }

  /**
   * Stored events, from the job service; if it does not answer or does not know the run, from
   * JetStream.
   */
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
      if (events !== undefined && since > 0) return events; // JetStream knows the run, but has no newer event.
    }
    return (await this.#jobs.request("events", request)).events;
  }

  /**
   * Waits for the end of the run, and returns its result. @throws RemoteError with the code of the
   * run's own error if the run failed
   */
  async result(): Promise<RunResult> {
    for await (const event of this.events()) {
      if (event.type === "run.finished") return event.result;
      if (event.type === "run.failed") throw new RemoteError(event.error);
    }
    throw new RequestFailedError(this.run, "its events ended without a result");
  }

  /**
   * Waits for the end of the run, and loads its model. This process must see the checkpoint
   * directory under the path that the job names. @throws as `result` and `loadModel` do
   */
  async model(options: Omit<LoadOptions, "manifest"> = {}): Promise<Model> {
    const { directory, manifest } = await this.result();
    return loadModel(directory, { ...options, manifest });
  }
}
