// The router of a model server: requests of all protocols pass through it, are sent to the model
// that answers them, and are counted.
//
// Invariants
//   F1. The split of a model is a function of the request's key alone: a key maps to one model as
//       long as the percentage stands. Requests without a key are distributed in turn.
//   F2. Scores of a shadow are never returned, and a shadow never delays a caller.

import {
  type Clock,
  InvalidOptionError,
  ModelUnknownError,
  murmurHash3,
  RequestTooLargeError,
  ServerDrainingError,
  TrainingError,
} from "../../../../internal.ts";
import type { Work } from "./batch-queue.ts";
import { type ScoringCall, type ScoringEngine, type ScoringResult, samplesOf } from "./engine.ts";
import type { ModelVersions } from "./model-versions.ts";
import type { ServerSpec } from "./server-options.ts";
import type { Protocol, ServingMetrics } from "./serving-metrics.ts";

/** A request, independent of its protocol. */
export interface Request {
  readonly model: string;
  /** The version that must answer: a digest, a prefix of it, or a step. @default the newest */
  readonly version?: string | undefined;
  readonly call: ScoringCall;
  readonly bytes: number;
  /** Deadline in milliseconds from now. @default the server's */
  readonly deadlineMs?: number | undefined;
  /** Determines the side of a split. */
  readonly key?: string | undefined;
  readonly protocol: Protocol;
  /** Whether the caller has gone. @default never */
  readonly isGone?: () => boolean;
}

/** An answer, and the model that gave it. */
export interface Response extends ScoringResult {
  readonly model: string;
  /** The labels that it predicts. */
  readonly tasks: readonly string[];
}

/** Shares of a split have a resolution of 0.01 %. */
const shares = 10_000;

/** Routes requests to the served models. */
export class RequestRouter {
  readonly #models: ReadonlyMap<string, ModelVersions>;
  readonly #spec: ServerSpec;
  readonly #clock: Clock;
  readonly #metrics: ServingMetrics;
  #turn = 0;
  #open = 0;
  #isLeaving = false;
  #isDraining = false;
  #idle: (() => void)[] = [];

  constructor(
    models: ReadonlyMap<string, ModelVersions>,
    input: {
      readonly spec: ServerSpec;
      readonly clock: Clock;
      readonly metrics: ServingMetrics;
    },
  ) {
    this.#models = models;
    this.#spec = input.spec;
    this.#clock = input.clock;
    this.#metrics = input.metrics;
  }

  get names(): readonly string[] {
    return [...this.#models.keys()];
  }

  /** Whether every model is loaded, and the server is not ending. */
  get isReady(): boolean {
    if (this.#isLeaving) return false;
    return [...this.#models.values()].every(({ engine }) => engine !== undefined);
  }

  /** Whether the server is about to end: each answer then closes its connection. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /**
   * Reports not ready but still answers, so that load balancers can stop sending requests first.
   */
  leave(): void {
    this.#isLeaving = true;
  }

  /** The most samples of a request. */
  get samplesMax(): number {
    return this.#spec.requestSamples;
  }

  /** The loaded versions of a model. @throws ModelUnknownError */
  model(name: string): ModelVersions {
    const found = this.#models.get(name);
    if (found === undefined) throw new ModelUnknownError(name, this.names);
    return found;
  }

  /**
   * The engine that will answer a request, to read its columns. @throws as `ModelVersions.engineOf`
   */
  engineOf(name: string, version?: string): ScoringEngine {
    return this.model(name).engineOf(version);
  }

  /**
   * Answers a request. @throws ModelUnknownError, ModelUnavailableError, ServerBusyError,
   * ServerDrainingError, RequestExpiredError, RequestTooLargeError, InvalidOptionError
   */
  async answer(request: Request): Promise<Response> {
    const fromMs = this.#clock.now();
    this.#open++;
    try {
      const response = await this.#answer(request, fromMs);
      this.#count(request, "ok", fromMs);
      return response;
    } catch (error) {
      this.#count(request, error instanceof TrainingError ? error.code : "UNKNOWN", fromMs);
      throw error;
    } finally {
      this.#open--;
      if (this.#open === 0) for (const resolve of this.#idle.splice(0)) resolve();
    }
  }

  /** Refuses new requests; resolves once all accepted requests are answered. */
  drain(): Promise<void> {
    this.#isLeaving = true;
    this.#isDraining = true;
    if (this.#open === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
    });
  }

  async #answer(request: Request, fromMs: number): Promise<Response> {
    if (this.#isDraining) throw new ServerDrainingError();
    const { requestSamples, deadlineMs: longestMs } = this.#spec;
    const samples = samplesOf(request.call);
    if (samples > requestSamples) {
      throw new RequestTooLargeError("samples", requestSamples, samples);
    }
    const deadlineMs = Math.min(request.deadlineMs ?? longestMs, longestMs);
    const { call, bytes, version, isGone = () => false } = request;
    const work: Work = { call, bytes, deadlineMs, untilMs: fromMs + deadlineMs, isGone };
    const model = this.model(version === undefined ? this.#sideOf(request) : request.model);
    const { tasks } = model.engineOf(version);
    const result = model.submit(work, version);
    const { shadow } = this.#spec.models[request.model] ?? {};
    if (shadow !== undefined) void this.#shadow(request, shadow, work, result);
    const scored = await result;
    checkScores(call, scored.scores, tasks.length);
    return { ...scored, model: model.name, tasks };
  }

  /** The model that answers: this one, or the other side of its split. F1 */
  #sideOf({ model, key, call }: Request): string {
    const { split } = this.#spec.models[model] ?? {};
    if (split === undefined) return model;
    const splitKey = split.key === undefined ? key : keyIn(call, split.key);
    const place =
      splitKey === undefined ? scattered(this.#turn++) : murmurHash3(latin1(splitKey), 0) % shares;
    const to = place < (split.percent * shares) / 100 ? split.model : model;
    this.#metrics.split(model, to);
    return to;
  }

  /** Scores the request on the shadow model too, and records the difference. F2 */
  async #shadow(
    { model }: Request,
    shadow: string,
    work: Work,
    result: Promise<ScoringResult>,
  ): Promise<void> {
    try {
      const { scores } = await result;
      const target = this.model(shadow);
      if (target.backlog.isHalfFull) {
        this.#metrics.shadowFailed(model, shadow, "SERVER_BUSY");
        return;
      }
      const untilMs = this.#clock.now() + work.deadlineMs;
      const other = await target.submit({ ...work, untilMs, isGone: () => false });
      this.#metrics.shadowed(model, shadow, largestDifference(scores, other.scores));
    } catch (error) {
      const code = error instanceof TrainingError ? error.code : "UNKNOWN";
      this.#metrics.shadowFailed(model, shadow, code);
    }
  }

  #count({ model, protocol }: Request, code: string, fromMs: number): void {
    // An unknown name must not become a metric label: each guess would add a series.
    if (!this.#models.has(model)) this.#metrics.refused(code);
    else this.#metrics.answered(model, protocol, code, this.#clock.now() - fromMs);
  }
}

/**
 * Refuses scores that are not finite: JSON has no NaN, and a ranking cannot place it.
 * @throws InvalidOptionError naming the record with the unusable prediction
 */
function checkScores({ kind }: ScoringCall, scores: Float32Array, tasks: number): void {
  const at = scores.findIndex((score) => !Number.isFinite(score));
  if (at < 0) return;
  const list = { records: "records", rank: "candidates", batch: "samples" }[kind];
  const name = `${list}[${Math.floor(at / tasks)}]`;
  const why = "the model predicts no finite number: values of its dense features are too large";
  throw new InvalidOptionError(name, `Cannot use ${name}: ${why}`);
}

/** The value of a column of the request's first record, as text. */
function keyIn(call: ScoringCall, column: string): string | undefined {
  if (call.kind === "batch") return undefined;
  const record = call.kind === "rank" ? call.user : call.records[0];
  if (typeof record !== "object" || record === null) return undefined;
  const value = record[column];
  return value === undefined || value === null ? undefined : String(value);
}

/** Spreads consecutive numbers over all shares, by a multiplier coprime to `shares`. */
function scattered(turn: number): number {
  return (turn * 6181) % shares;
}

function latin1(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

function largestDifference(one: Float32Array, other: Float32Array): number {
  let largest = one.length === other.length ? 0 : 1;
  for (let i = 0; i < Math.min(one.length, other.length); i++) {
    largest = Math.max(largest, Math.abs((one[i] ?? 0) - (other[i] ?? 0)));
  }
  return largest;
}
