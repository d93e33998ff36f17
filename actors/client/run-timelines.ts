// Collects the timelines of a run from all hosts that keep some, page by page through the leader.
// No option is needed: every thread keeps records of its last steps.

import { RemoteError, TraceMissingError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { ThreadTimeline, TimelinePage } from "../host/kept-timelines.ts";

/** The timelines of one generation of a run. */
export interface RunTimelines {
  readonly run: string;
  readonly generation: number;
  /** First and last step, as far as the first device still has them. */
  readonly fromStep: number;
  readonly toStep: number;
  /** The hosts of the generation, in its order. */
  readonly hosts: readonly number[];
  readonly threads: readonly (ThreadTimeline & { readonly host: number })[];
  /** Hosts of the generation that keep no timeline of it, have ended, or do not answer. */
  readonly missing: readonly number[];
}

export interface TimelinesOptions {
  /** Steps to collect, the last ones. @default 20 */
  readonly steps?: number;
  /** Collects the next steps instead: waits until they are trained, or the run is over. */
  readonly areNext?: boolean;
  /** Ends that wait early: only the steps trained by then are collected. */
  readonly signal?: AbortSignal;
}

/** Interval between two requests for a run's last step. */
const lookMs = 250;

type Ask = <Answer>(body: unknown) => Promise<Answer>;

/** @throws TraceMissingError where no host keeps a step of the run */
export async function collectTimelines(
  run: string,
  { steps = 20, areNext = false, signal }: TimelinesOptions,
  ports: { readonly ask: Ask; readonly clock: Clock; readonly isOver: () => Promise<boolean> },
): Promise<RunTimelines> {
  const { ask, clock } = ports;
  let present: readonly number[] = [];
  const pageOf = async (host: number, fromStep: number, first = 0) => {
    try {
      const of = { run, host, fromStep, first };
      return (await ask<{ readonly page: TimelinePage | null }>(of)).page;
    } catch (error) {
      // The host has just died, or is too busy: the timelines of the others are still collected.
      if (error instanceof RemoteError && error.code === "STEP_TIMEOUT") return null;
      throw error;
    }
  };
  /** The newest generation that a host keeps, without its records. */
  const newest = async () => {
    ({ hosts: present } = await ask<{ readonly hosts: readonly number[] }>({ run }));
    const pages = await Promise.all(present.map((host) => pageOf(host, Number.MAX_SAFE_INTEGER)));
    return pages.reduce((last, page) => {
      return page !== null && page.generation >= (last?.generation ?? 0) ? page : last;
    }, null);
  };
  let last = await newest();
  if (areNext) {
    const toStep = (last?.lastStep ?? -1) + steps;
    while (
      (last?.lastStep ?? -1) <= toStep &&
      signal?.aborted !== true &&
      !(await ports.isOver())
    ) {
      await new Promise<void>((resume) => clock.after(lookMs, resume));
      last = await newest();
    }
  }
  if (last === null || last.lastStep < 0) throw new TraceMissingError(run);
  const { generation, hosts, lastStep } = last;
  const fromStep = Math.max(0, lastStep - steps);
  const found = new Map<number, ThreadTimeline[]>();
  await Promise.all(
    hosts
      .filter((host) => present.includes(host))
      .map(async (host) => {
        const threads: ThreadTimeline[] = [];
        for (let first: number | undefined = 0; first !== undefined; ) {
          const page: TimelinePage | null = await pageOf(host, fromStep, first);
          if (page?.generation !== generation) return; // The host has begun another generation.
          threads.push(...page.threads);
          first = page.next;
        }
        found.set(host, threads);
      }),
  );
  const threads = hosts.flatMap((host) => (found.get(host) ?? []).map((one) => ({ ...one, host })));
  const missing = hosts.filter((host) => !found.has(host));
  return { run, generation, ...stepsOf(threads, fromStep), hosts, threads, missing };
}

/** First and last collected step; records of earlier steps that overlap them are kept, too. */
function stepsOf(threads: readonly ThreadTimeline[], fromStep: number) {
  const steps = (threads[0]?.records ?? [])
    .filter(([kind]) => kind === "task")
    .map((one) => one[2]);
  return { fromStep: Math.max(fromStep, Math.min(...steps)), toStep: Math.max(...steps) };
}
