// The queue of one version of a model: batches concurrent requests.
//
//   submit ──▶ waiting ──(the engine is idle, at the end of this turn)──▶ batch ──▶ engine
//                ▲                                                          │
//                └────── requests that arrive meanwhile form the next batch ─┘
//
// A lone request is not delayed: requests collect only while the engine is busy. A batch is limited
// to the samples that fit the latency budget, according to recent measurements.
//
// Invariants
//   Q1. Every accepted request is answered once: with scores of one version, or an error.
//   Q2. Samples and bytes that wait or are scored never exceed the backlog's limits.
//   Q3. A request whose deadline has passed, or whose caller is gone, is not scored.
//   Q4. An error in one request fails no other request of its batch.

import {
  type Clock,
  checkBatch,
  ModelUnavailableError,
  type NextTurn,
  RequestExpiredError,
  ServerBusyError,
  shapesOf,
  TrainingError,
  weightedOf,
  wideOf,
} from "../../../../internal.ts";
import { BatchTimes } from "./batch-times.ts";
import { type Answered, type Asked, type ScoringEngine, samplesOf, scoreAlone } from "./engine.ts";
import { mergeBatches } from "./merge-batches.ts";

/** Limits on the waiting samples and bytes of one model, over all of its versions. Q2 */
export class Backlog {
  readonly #model: string;
  readonly #samplesMax: number;
  readonly #bytesMax: number;
  samples = 0;
  bytes = 0;
  requests = 0;

  constructor(model: string, max: { readonly samples: number; readonly bytes: number }) {
    this.#model = model;
    this.#samplesMax = max.samples;
    this.#bytesMax = max.bytes;
  }

  /**
   * Whether more than half is used: shadow requests, which no caller waits for, are then skipped.
   */
  get isHalfFull(): boolean {
    return 2 * this.samples > this.#samplesMax || 2 * this.bytes > this.#bytesMax;
  }

  /** Reserves room for a request. An empty backlog accepts any request. @throws ServerBusyError */
  take(samples: number, bytes: number, retryMs: number): void {
    if (this.requests > 0) {
      const max = this.#samplesMax;
      if (this.samples + samples > max) {
        throw new ServerBusyError(this.#model, "samples", max, retryMs);
      }
      if (this.bytes + bytes > this.#bytesMax) {
        throw new ServerBusyError(this.#model, "bytes", this.#bytesMax, retryMs);
      }
    }
    this.samples += samples;
    this.bytes += bytes;
    this.requests++;
  }

  release(samples: number, bytes: number): void {
    this.samples -= samples;
    this.bytes -= bytes;
    this.requests--;
  }
}

/** A request for the queue. */
export interface Work {
  readonly asked: Asked;
  /** Bytes of the request. */
  readonly bytes: number;
  /** When the caller stops waiting, by the queue's clock, and the whole deadline. */
  readonly untilMs: number;
  readonly deadlineMs: number;
  /** Whether the caller has gone. */
  readonly isGone: () => boolean;
}

interface Waiting extends Work {
  readonly samples: number;
  readonly fromMs: number;
  readonly resolve: (answered: Answered) => void;
  readonly reject: (error: unknown) => void;
}

/** The measurements of a batch. */
export interface BatchNews {
  readonly requests: number;
  readonly samples: number;
  /** Milliseconds of the engine, and the wait of the first request. */
  readonly scoreMs: number;
  readonly waitMs: number;
}

export interface BatchQueueInput {
  readonly model: string;
  readonly engine: ScoringEngine;
  readonly backlog: Backlog;
  readonly clock: Clock;
  readonly nextTurn: NextTurn;
  /** Most samples of a batch of several requests. */
  readonly batchMax: number;
  readonly latencyBudgetMs: number;
  /** Longest time that the engine may take for a batch. */
  readonly engineMs: number;
  readonly onBatch: (news: BatchNews) => void;
  /** Called if the engine hangs and must be replaced. */
  readonly onHang: () => void;
}

/** Weight of a batch in the moving mean of the time per sample. */
const meanShare = 0.1;

/** The batching queue of one version. */
export class BatchQueue {
  readonly #input: BatchQueueInput;
  readonly #shape: Parameters<typeof checkBatch>[1];
  #waiting: Waiting[] = [];
  #isRunning = false;
  /** Recent milliseconds per sample. */
  #sampleMs = 0;
  readonly #times = new BatchTimes();
  #idle: (() => void)[] = [];
  #gone: string | undefined;

  constructor(input: BatchQueueInput) {
    this.#input = input;
    const { model, data } = input.engine.job;
    const shapes = shapesOf(model);
    this.#shape = {
      dense: model.dense,
      features: shapes.length,
      isWide: wideOf(shapes).includes(true),
      isWeighted: weightedOf(data, shapes).includes(true),
    };
  }

  /**
   * Scores a request, batched with others. @throws ServerBusyError, RequestExpiredError,
   * InvalidOptionError, errors of the engine
   */
  submit(work: Work): Promise<Answered> {
    const { backlog, clock, model } = this.#input;
    if (this.#gone !== undefined) throw new ModelUnavailableError(model, this.#gone);
    if (work.asked.kind === "batch") checkBatch(work.asked.batch, this.#shape);
    const samples = samplesOf(work.asked);
    backlog.take(samples, work.bytes, Math.ceil(backlog.samples * this.#sampleMs)); // Q2
    const { asked, bytes, untilMs, deadlineMs, isGone } = work;
    const answered = new Promise<Answered>((resolve, reject) => {
      const own = { samples, fromMs: clock.now(), resolve, reject };
      this.#waiting.push({ asked, bytes, untilMs, deadlineMs, isGone, ...own });
    });
    if (!this.#isRunning) {
      this.#isRunning = true;
      this.#input.nextTurn(() => void this.#run());
    }
    return answered;
  }

  /** Fails all waiting and later requests: the engine is gone. */
  abandon(reason: string): void {
    this.#gone = reason;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const work of waiting) {
      this.#fail(work, new ModelUnavailableError(this.#input.model, reason));
    }
  }

  /** Resolves once no request waits or is scored. */
  idle(): Promise<void> {
    if (!this.#isRunning) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
    });
  }

  async #run(): Promise<void> {
    const batch = this.#nextBatch();
    if (batch.length > 0) await this.#score(batch);
    if (this.#waiting.length > 0) {
      this.#input.nextTurn(() => void this.#run());
      return;
    }
    this.#isRunning = false;
    const waiters = this.#idle;
    this.#idle = [];
    for (const tell of waiters) tell();
  }

  /** The first requests of one kind that fit a batch; drops expired and abandoned requests. */
  #nextBatch(): Waiting[] {
    const nowMs = this.#input.clock.now();
    const samplesMax = this.#samplesMax();
    const batch: Waiting[] = [];
    let samples = 0;
    let taken = 0;
    for (const work of this.#waiting) {
      if (work.untilMs <= nowMs || work.isGone()) {
        this.#fail(work, new RequestExpiredError(this.#input.model, work.deadlineMs)); // Q3
        taken++;
        continue;
      }
      const [first] = batch;
      if (first !== undefined) {
        const isAlone = first.asked.kind === "rank" || work.asked.kind !== first.asked.kind;
        if (isAlone || samples + work.samples > samplesMax) break;
      }
      batch.push(work);
      samples += work.samples;
      taken++;
    }
    this.#waiting.splice(0, taken);
    return batch;
  }

  #samplesMax(): number {
    const { batchMax, latencyBudgetMs } = this.#input;
    return Math.min(batchMax, this.#times.within(latencyBudgetMs) ?? batchMax);
  }

  async #score(batch: readonly Waiting[]): Promise<void> {
    const { clock, engineMs, onHang, onBatch, model } = this.#input;
    const fromMs = clock.now();
    let isLate = false;
    const cancel = clock.after(engineMs, () => {
      isLate = true;
      for (const work of batch) {
        this.#fail(work, new ModelUnavailableError(model, `it hung for ${engineMs} ms`));
      }
      onHang();
    });
    const results = await this.#resultsOf(batch);
    cancel();
    if (isLate) return;
    const scoreMs = clock.now() - fromMs;
    const samples = batch.reduce((sum, work) => sum + work.samples, 0);
    this.#times.add(samples, scoreMs);
    const perSample = scoreMs / Math.max(1, samples);
    this.#sampleMs =
      this.#sampleMs === 0 ? perSample : this.#sampleMs + meanShare * (perSample - this.#sampleMs);
    const waitMs = fromMs - (batch[0]?.fromMs ?? fromMs);
    onBatch({ requests: batch.length, samples, scoreMs, waitMs });
    for (const [i, work] of batch.entries()) {
      const result = results[i];
      if (result !== undefined && "answered" in result) this.#answer(work, result.answered);
      else this.#fail(work, result?.error);
    }
  }

  /** Scores a batch; if a request is at fault, scores each request alone. Q4 */
  async #resultsOf(batch: readonly Waiting[]): Promise<Result[]> {
    const { engine } = this.#input;
    const alone = (work: Waiting) =>
      scoreAlone(engine, work.asked).then(
        (answered): Result => ({ answered }),
        (error: unknown): Result => ({ error }),
      );
    const [first] = batch;
    if (first !== undefined && batch.length === 1) return [await alone(first)];
    try {
      const { scores, version } = await this.#scoreTogether(batch);
      const tasks = engine.tasks.length;
      let at = 0;
      return batch.map(({ samples }) => {
        const from = at;
        at += samples * tasks;
        return { answered: { scores: scores.subarray(from, at), version } };
      });
    } catch (error) {
      const isOfRequest = error instanceof TrainingError && error.recovery === "stop";
      if (!isOfRequest) return batch.map(() => ({ error }));
      // Only scoring alone shows which request is at fault, with the index of its own record.
      const results: Result[] = [];
      for (const work of batch) results.push(await alone(work));
      return results;
    }
  }

  #scoreTogether(batch: readonly Waiting[]): Promise<Answered> {
    const { engine } = this.#input;
    const asked = batch.map((work) => work.asked);
    if (asked[0]?.kind === "records") {
      return engine.predict(asked.flatMap((one) => (one.kind === "records" ? one.records : [])));
    }
    const batches = asked.flatMap((one) => (one.kind === "batch" ? [one.batch] : []));
    return engine.predictBatch(mergeBatches(batches, this.#shape.features));
  }

  #answer(work: Waiting, answered: Answered): void {
    this.#input.backlog.release(work.samples, work.bytes);
    work.resolve(answered);
  }

  #fail(work: Waiting, error: unknown): void {
    this.#input.backlog.release(work.samples, work.bytes);
    work.reject(error);
  }
}

type Result = { readonly answered: Answered } | { readonly error: unknown };
