// The loaded versions of one served model: the newest answers, unless a request names another
// version. Requests reach the model's actor through it.
//
// Invariants
//   V1. A dropped version answers its accepted requests before it is closed.
//   V2. An answer names the version that computed it. A request that names a version is answered
//       by that version or not at all.

import {
  type Clock,
  ModelUnavailableError,
  ModelUnknownError,
  type NextTurn,
} from "../../../../internal.ts";
import type { ServedVersion } from "../../model/served-model.ts";
import { Backlog, BatchQueue, type Work } from "./batch-queue.ts";
import type { ScoringEngine, ScoringResult } from "./engine.ts";
import type { ServedModelSpec, ServerSpec } from "./server-options.ts";
import type { ServingMetrics } from "./serving-metrics.ts";

interface LoadedVersion {
  readonly engine: ScoringEngine;
  readonly queue: BatchQueue;
}

/** The last failure to load, for display. */
export interface LoadFailure {
  readonly code: string;
  readonly message: string;
  /** Time of the failure, as ISO 8601. */
  readonly at: string;
}

export interface ModelVersionsInput {
  readonly name: string;
  readonly spec: ServedModelSpec;
  readonly limits: ServerSpec;
  readonly clock: Clock;
  readonly nextTurn: NextTurn;
  readonly metrics: ServingMetrics;
}

/** Shortest prefix of a digest that names a version. */
const digitsMin = 8;

/** The loaded versions of one model. */
export class ModelVersions {
  readonly name: string;
  readonly backlog: Backlog;
  /** Why the newest checkpoint or delta is not served; undefined: it is served. */
  failure: LoadFailure | undefined;
  readonly #input: ModelVersionsInput;
  /** Newest first. */
  #loaded: LoadedVersion[] = [];

  constructor(input: ModelVersionsInput) {
    const { name, limits } = input;
    this.name = name;
    this.#input = input;
    this.backlog = new Backlog(name, { samples: limits.queueSamples, bytes: limits.queueBytes });
    input.metrics.version(name, undefined);
  }

  /** The newest engine; undefined: none is loaded. */
  get engine(): ScoringEngine | undefined {
    return this.#loaded[0]?.engine;
  }

  /** The loaded versions, newest first. */
  get versions(): readonly ServedVersion[] {
    return this.#loaded.map(({ engine }) => engine.version);
  }

  /** The engine of a version. @throws ModelUnavailableError, ModelUnknownError */
  engineOf(version?: string): ScoringEngine {
    return this.#find(version).engine;
  }

  /** Scores a request by the newest version or the named one. @throws as `BatchQueue` */
  async submit(work: Work, version?: string): Promise<ScoringResult> {
    const result = await this.#find(version).queue.submit(work);
    if (version === undefined || isNamed(result.version, version)) return result;
    throw this.#unknown(version); // V2: a delta has switched meanwhile.
  }

  /** Makes an engine the newest version. `onHang`: called if it hangs. */
  add(engine: ScoringEngine, onHang: () => void): void {
    const { name, spec, limits, clock, nextTurn, metrics } = this.#input;
    let counted = engine.rowCounts;
    const queue = new BatchQueue({
      model: name,
      engine,
      backlog: this.backlog,
      clock,
      nextTurn,
      batchMax: limits.batch,
      latencyBudgetMs: limits.latencyBudgetMs,
      engineMs: limits.engineMs,
      onBatch: (report) => {
        metrics.batch(name, report);
        counted = countRows(metrics, name, engine, counted);
      },
      onHang,
    });
    this.#loaded.unshift({ engine, queue });
    const dropped = this.#loaded.splice(spec.keep);
    for (const one of dropped) void closeWhenIdle(one); // V1
    this.switched();
  }

  /** Records that another version has become the newest. */
  switched(): void {
    this.failure = undefined;
    this.#input.metrics.version(this.name, this.engine?.version);
  }

  /** Abandons all engines immediately: their requests fail. */
  abandon(reason: string): void {
    const loaded = this.#loaded;
    this.#loaded = [];
    for (const { engine, queue } of loaded) {
      queue.abandon(reason);
      void engine.close().catch(() => {}); // It may hang for ever.
    }
    this.#input.metrics.version(this.name, undefined);
  }

  /** Answers all accepted requests, and closes all engines. */
  async drain(): Promise<void> {
    const loaded = this.#loaded;
    await Promise.all(loaded.map(({ queue }) => queue.idle()));
    this.#loaded = [];
    await Promise.all(loaded.map(({ engine }) => engine.close()));
  }

  #find(version: string | undefined): LoadedVersion {
    const [newest] = this.#loaded;
    if (newest === undefined) {
      const reason = this.failure?.message ?? "it is not loaded yet";
      throw new ModelUnavailableError(this.name, reason);
    }
    if (version === undefined) return newest;
    const found = this.#loaded.find(({ engine }) => isNamed(engine.version, version));
    if (found === undefined) throw this.#unknown(version);
    return found;
  }

  #unknown(version: string): ModelUnknownError {
    const known = this.versions.map(({ digest }) => digest);
    return new ModelUnknownError(this.name, known, version);
  }
}

/**
 * Counts the rows that the engine looked up since the counts `before`. Returns the current counts.
 */
function countRows(
  metrics: ServingMetrics,
  name: string,
  { rowCounts: now }: ScoringEngine,
  before: ScoringEngine["rowCounts"],
): ScoringEngine["rowCounts"] {
  if (now !== undefined && now.hits + now.misses > 0) {
    const { hits = 0, misses = 0 } = before ?? {};
    metrics.rows(name, { hits: now.hits - hits, misses: now.misses - misses });
  }
  return now;
}

/** Whether `name` is the version's digest, a prefix of it, or its step. */
function isNamed({ digest, step }: ServedVersion, name: string): boolean {
  if (name === String(step)) return true;
  const hex = name.replace(/^sha256:/, "");
  return hex.length >= digitsMin && digest.startsWith(`sha256:${hex}`);
}

async function closeWhenIdle({ engine, queue }: LoadedVersion): Promise<void> {
  await queue.idle();
  await engine.close().catch(() => {});
}
