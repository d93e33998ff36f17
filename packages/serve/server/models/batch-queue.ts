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
  type EncodedBatch,
  ModelUnavailableError,
  type NextTurn,
  RequestExpiredError,
  ServerBusyError,
  shapesOf,
  TrainingError,
  weightedOf,
  wideOf,
} from "../../../../internal.ts";
import {
  type ScoringCall,
  type ScoringEngine,
  type ScoringResult,
  samplesOf,
  scoreAlone,
} from "./engine.ts";

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
  readonly call: ScoringCall;
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
  readonly resolve: (result: ScoringResult) => void;
  readonly reject: (error: unknown) => void;
}

/** The measurements of a batch. */
export interface BatchReport {
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
  readonly onBatch: (report: BatchReport) => void;
  /** Called if the engine hangs and must be replaced. */
  readonly onHang: () => void;
}

/** Weight of the newest batch in the moving means of times. */
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
  submit(work: Work): Promise<ScoringResult> {
    const { backlog, clock, model } = this.#input;
    if (this.#gone !== undefined) throw new ModelUnavailableError(model, this.#gone);
    if (work.call.kind === "batch") checkBatch(work.call.batch, this.#shape);
    const samples = samplesOf(work.call);
    backlog.take(samples, work.bytes, Math.ceil(backlog.samples * this.#sampleMs)); // Q2
    const { call, bytes, untilMs, deadlineMs, isGone } = work;
    const result = new Promise<ScoringResult>((resolve, reject) => {
      const entry = { samples, fromMs: clock.now(), resolve, reject };
      this.#waiting.push({ call, bytes, untilMs, deadlineMs, isGone, ...entry });
    });
    if (!this.#isRunning) {
      this.#isRunning = true;
      this.#input.nextTurn(() => void this.#run());
    }
    return result;
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
    for (const resolve of waiters) resolve();
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
        const isAlone = first.call.kind === "rank" || work.call.kind !== first.call.kind;
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
    const outcomes = await this.#outcomesOf(batch);
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
      const outcome = outcomes[i];
      if (outcome !== undefined && "result" in outcome) this.#answer(work, outcome.result);
      else this.#fail(work, outcome?.error);
    }
  }

  /** Scores a batch; if a request is at fault, scores each request alone. Q4 */
  async #outcomesOf(batch: readonly Waiting[]): Promise<Outcome[]> {
    const { engine } = this.#input;
    const alone = (work: Waiting) =>
      scoreAlone(engine, work.call).then(
        (result): Outcome => ({ result }),
        (error: unknown): Outcome => ({ error }),
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
        return { result: { scores: scores.subarray(from, at), version } };
      });
    } catch (error) {
      const isOfRequest = error instanceof TrainingError && error.recovery === "stop";
      if (!isOfRequest) return batch.map(() => ({ error }));
      // Only scoring alone shows which request is at fault, with the index of its own record.
      const outcomes: Outcome[] = [];
      for (const work of batch) outcomes.push(await alone(work));
      return outcomes;
    }
  }

  #scoreTogether(batch: readonly Waiting[]): Promise<ScoringResult> {
    const { engine } = this.#input;
    const call = batch.map((work) => work.call);
    if (call[0]?.kind === "records") {
      return engine.predict(call.flatMap((one) => (one.kind === "records" ? one.records : [])));
    }
    const batches = call.flatMap((one) => (one.kind === "batch" ? [one.batch] : []));
    return engine.predictBatch(mergeBatches(batches, this.#shape.features));
  }

  #answer(work: Waiting, result: ScoringResult): void {
    this.#input.backlog.release(work.samples, work.bytes);
    work.resolve(result);
  }

  #fail(work: Waiting, error: unknown): void {
    this.#input.backlog.release(work.samples, work.bytes);
    work.reject(error);
  }
}

type Outcome = { readonly result: ScoringResult } | { readonly error: unknown };

/**
 * Time of an engine per batch, by batch size. Sizes are measured separately, because samples are
 * far cheaper in large batches, and because a delay of the machine should affect only one size.
 */
export class BatchTimes {
  /** For batches with 2^(i-1) < samples <= 2^i: mean size, and mean milliseconds. */
  readonly #sizes: number[] = [];
  readonly #times: number[] = [];

  add(samples: number, ms: number): void {
    const at = Math.ceil(Math.log2(Math.max(1, samples)));
    const [size, time] = [this.#sizes[at], this.#times[at]];
    this.#sizes[at] = size === undefined ? samples : size + meanShare * (samples - size);
    this.#times[at] = time === undefined ? ms : time + meanShare * (ms - time);
  }

  /**
   * The most samples that take no longer than `ms`, at least 1; undefined: no measurement. The time
   * of an unmeasured size is extrapolated in proportion, which overestimates it, as each batch has
   * fixed costs.
   */
  within(ms: number): number | undefined {
    let most: number | undefined;
    for (const [at, time] of this.#times.entries()) {
      if (time === undefined) continue;
      const samples = time > 0 ? ((this.#sizes[at] ?? 1) * ms) / time : Number.POSITIVE_INFINITY;
      most = Math.max(most ?? 1, Math.floor(samples));
    }
    return most;
  }
}

/**
 * Merges batches, in order, into one. `features`: T; arrays (T,B) and ids are feature-major. All
 * batches must fit the model.
 */
function mergeBatches(batches: readonly EncodedBatch[], features: number): EncodedBatch {
  const [only] = batches;
  if (only !== undefined && batches.length === 1) return only;
  const sum = (of: (batch: EncodedBatch) => number) => batches.reduce((all, b) => all + of(b), 0);
  const samples = sum((batch) => batch.samples);
  const idCount = sum((batch) => batch.ids.length);
  const dense = new Float32Array(sum((batch) => batch.dense.length));
  const lengths = new Int32Array(features * samples);
  const ids = new Int32Array(idCount);
  const highs = only?.highs && new Int32Array(idCount);
  const weights = only?.weights && new Float32Array(idCount);
  let at = 0;
  for (const batch of batches) {
    dense.set(batch.dense, at);
    at += batch.dense.length;
  }
  const taken = batches.map(() => 0); // copied ids of each batch
  let sample = 0;
  let id = 0;
  for (let feature = 0; feature < features; feature++) {
    for (const [i, batch] of batches.entries()) {
      const counts = batch.lengths.subarray(feature * batch.samples, (feature + 1) * batch.samples);
      lengths.set(counts, sample);
      sample += counts.length;
      const from = taken[i] ?? 0;
      const end = counts.reduce((all, length) => all + length, from);
      ids.set(batch.ids.subarray(from, end), id);
      if (batch.highs !== undefined) highs?.set(batch.highs.subarray(from, end), id);
      if (batch.weights !== undefined) weights?.set(batch.weights.subarray(from, end), id);
      id += end - from;
      taken[i] = end;
    }
  }
  return { samples, dense, lengths, ids, highs, weights };
}
