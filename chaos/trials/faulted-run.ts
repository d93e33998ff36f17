// A faulted run: one job in its own environment, a schedule of faults that is executed on it, and
// an operator who resubmits the job where a person would.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Run } from "../../actors/client/run.ts";
import { modulesOf } from "../../actors/jobs/allowed-paths.ts";
import type { RunEvent } from "../../actors/run/state/run-events.ts";
import type { RunResult } from "../../actors/run/state/run-result.ts";
import type { Incident } from "../../actors/runtime/incident.ts";
import { type ErrorRecord, RequestFailedError } from "../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { realClock } from "../../src/ports/clock.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { Injections } from "../faults/injections.ts";
import type { FaultKind, Schedule } from "../faults/schedule.ts";
import { Environment, sleep } from "./environment.ts";
import { Injector } from "./injector.ts";

/** An event, with the time of its receipt. */
export interface ReceivedEvent {
  readonly atMs: number;
  readonly event: RunEvent;
}

/** Outcome of one fault of the schedule. */
export interface FaultOutcome {
  readonly injected: boolean;
  readonly atMs?: number | undefined;
  readonly step?: number | undefined;
  readonly generation?: number | undefined;
  /** Number of affected frames, operations or steps. */
  readonly hits?: number | undefined;
  /** Why it was not injected. */
  readonly whyNot?: string | undefined;
}

/** A run with injected faults, from start to end. */
export interface FaultedRun {
  /** `stuck`: the run did not end, and had no event for `patienceMs`. */
  readonly end: "finished" | "failed" | "stuck" | "cancelled";
  readonly result: RunResult | undefined;
  readonly error: ErrorRecord | undefined;
  readonly events: readonly ReceivedEvent[];
  /** Incidents outside the run: of actors of the cluster and of hosts. */
  readonly incidents: readonly Incident[];
  readonly faults: readonly FaultOutcome[];
  /** Number of submissions: again after a lost leader, or a failure that stopped the run. */
  readonly submissions: number;
  /** Faults still in effect at the end; if there are any, the harness is broken. */
  readonly alive: readonly string[];
  /** Its checkpoint directory, until it is disposed of. */
  readonly directory: string;
  readonly seconds: number;
}

export interface FaultedRunOptions {
  readonly signal?: AbortSignal | undefined;
  /** A run without an event for this long is stuck. @default a minute and ten deadlines */
  readonly patienceMs?: number | undefined;
  /**
   * Disturbs the environment in addition to the schedule, until the returned function is called.
   */
  readonly disturb?: (environment: Environment) => () => void;
}

/** Error codes that end a run by design, with the faults that explain them. */
const expectedEnds: Readonly<Record<string, readonly FaultKind[]>> = {
  NON_FINITE_LOSS: ["nan"],
  NON_FINITE_GRADIENT: ["nan"],
};

/** All checkpoints are kept, because the ledger reads the whole chain. */
const keepAll = 1_000_000;

/** The job of a faulted run: with its own directory, and unlimited restarts. */
export function jobIn(job: JobOptions, directory: string): JobOptions {
  return {
    ...job,
    checkpoint: { ...job.checkpoint, directory, keep: keepAll },
    restarts: { restartsMax: 1000, windowMs: 1 },
  };
}

/** Runs a schedule on a job. Disposing of the result removes its directory. */
export async function runSchedule(
  job: JobOptions,
  schedule: Schedule,
  options: FaultedRunOptions = {},
): Promise<FaultedRun & Disposable> {
  const home = temporaryHome("osiris-chaos-");
  try {
    const faulted = await new ScheduleRun(job, schedule, options, home.path).toItsEnd();
    return { ...faulted, [Symbol.dispose]: () => home[Symbol.dispose]() };
  } catch (error) {
    home[Symbol.dispose]();
    throw error;
  }
}

type End = Pick<FaultedRun, "end" | "result" | "error">;

class ScheduleRun {
  readonly #job: JobOptions;
  readonly #schedule: Schedule;
  readonly #options: FaultedRunOptions;
  readonly #directory: string;
  readonly #injections: Injections;
  readonly #stepDeadlineMs: number;
  readonly #patienceMs: number;
  readonly #events: ReceivedEvent[] = [];
  readonly #incidents: Incident[] = [];
  #run: Run | undefined;
  #step = 0;
  #submissions = 0;

  constructor(job: JobOptions, schedule: Schedule, options: FaultedRunOptions, home: string) {
    const injectionsIn = join(home, "injections");
    mkdirSync(injectionsIn);
    this.#directory = join(home, "checkpoints");
    this.#job = jobIn(job, this.#directory);
    this.#schedule = schedule;
    this.#options = options;
    this.#injections = new Injections(injectionsIn);
    this.#stepDeadlineMs = resolveJob(this.#job).stepDeadlineMs;
    this.#patienceMs = options.patienceMs ?? 60_000 + 10 * this.#stepDeadlineMs;
  }

  async toItsEnd(): Promise<FaultedRun> {
    const startedAtMs = realClock.now();
    const environment = await Environment.open({
      size: this.#schedule.environment,
      plan: {
        faults: this.#schedule.faults,
        injectionsIn: this.#injections.directory,
        stepDeadlineMs: this.#stepDeadlineMs,
        directory: this.#directory,
      },
      models: modulesOf(resolveJob(this.#job)),
      onIncident: (incident) => this.#incidents.push(incident),
    });
    let end: End;
    let alive: string[] = [];
    try {
      const injector = new Injector({
        schedule: this.#schedule,
        injections: this.#injections,
        environment,
        stepDeadlineMs: this.#stepDeadlineMs,
        run: () => this.#run?.run,
        step: () => this.#step,
      });
      const stop = this.#options.disturb?.(environment) ?? (() => {});
      end = await this.#untilOver(environment).finally(stop);
      await injector.stop();
      alive = environment.alive();
    } finally {
      await environment.close();
    }
    return {
      ...end,
      events: this.#events,
      incidents: this.#incidents,
      faults: this.#schedule.faults.map((_, index) => this.#outcomeOf(index)),
      submissions: this.#submissions,
      alive,
      directory: this.#directory,
      seconds: (realClock.now() - startedAtMs) / 1000,
    };
  }

  /** Submits and follows the job, and resubmits it where an operator would. */
  async #untilOver(environment: Environment): Promise<End> {
    let stops = 0;
    for (;;) {
      const leader = environment.process("leader");
      const run = leader === undefined ? undefined : await this.#submit(environment);
      if (run === undefined) {
        await sleep(50);
        continue;
      }
      this.#run = run;
      const isGone = leader === undefined ? Promise.resolve() : leader.exited;
      const end = await this.#follow(run, isGone);
      if (end === undefined) continue; // The leader was lost, with its list of runs.
      const code = end.error?.code ?? "";
      const mayGoOn = end.end === "failed" && this.#isAccountedFor(code);
      if (!mayGoOn || stops++ >= this.#schedule.faults.length) return end;
    }
  }

  /** Submits the job; undefined if no leader accepts it now. */
  async #submit(environment: Environment): Promise<Run | undefined> {
    try {
      const run = await environment.client.submit(this.#job);
      this.#submissions++;
      return run;
    } catch (error) {
      if (error instanceof RequestFailedError) return undefined;
      throw error;
    }
  }

  /** Follows a run to its end; undefined if the leader's process has ended. */
  async #follow(run: Run, isGone: Promise<void>): Promise<End | undefined> {
    const events = run.events();
    try {
      for (;;) {
        const next = await this.#within(events.next(), isGone);
        if (next === "gone") return undefined;
        if (next === "stuck" || next === "cancelled") {
          return { end: next, result: undefined, error: undefined };
        }
        if (next.done === true) throw new TypeError(`Run ${run.run} ended without a result`);
        const event = next.value;
        this.#receive(event);
        if (event.type === "run.failed") {
          return { end: "failed", result: undefined, error: event.error };
        }
        if (event.type !== "run.finished") continue;
        return { end: "finished", result: event.result, error: undefined };
      }
    } finally {
      events.return().catch(() => {}); // Its pending request does not matter.
    }
  }

  #within<T>(next: Promise<T>, isGone: Promise<void>): Promise<T | "gone" | "stuck" | "cancelled"> {
    const { signal } = this.#options;
    return new Promise((resolve, reject) => {
      const cancel = realClock.after(this.#patienceMs, () => resolve("stuck"));
      const abort = () => resolve("cancelled");
      signal?.addEventListener("abort", abort, { once: true });
      if (signal?.aborted === true) abort();
      void isGone.then(() => resolve("gone"));
      next.then(resolve, reject).finally(() => {
        cancel();
        signal?.removeEventListener("abort", abort);
      });
    });
  }

  #receive(event: RunEvent): void {
    this.#events.push({ atMs: Date.now(), event });
    if ("step" in event && event.type !== "run.incident") this.#step = event.step;
  }

  #isAccountedFor(code: string): boolean {
    const kinds = expectedEnds[code] ?? [];
    return this.#schedule.faults.some(
      ({ what }, index) => kinds.includes(what) && this.#injections.injected(index) !== undefined,
    );
  }

  #outcomeOf(index: number): FaultOutcome {
    const injection = this.#injections.injected(index);
    if (injection === undefined) return { injected: false, whyNot: this.#whyNot(index) };
    const { atMs, step, generation } = injection;
    return { injected: true, atMs, step, generation, hits: this.#injections.healed(index)?.hits };
  }

  #whyNot(index: number): string {
    const fault = this.#schedule.faults[index];
    const during = fault?.when.during;
    if (during === "recovery") return "no restore followed an earlier fault";
    const place = fault !== undefined && "where" in fault ? fault.where : "device 0";
    if (this.#step < (fault?.when.step ?? 0)) return "the run ended before that step";
    const moment = during === "step" ? "that point of a step" : `${during} after that step`;
    return `${place} did not reach ${moment}, or did not run`;
  }
}
