// A resource that jobs share equally (processor sharing): cores, a memory, a disk, one way of a
// link. Each of n jobs gets an equal share of the servers, but at most one server: a lone job on
// two cores uses one core.
//
// Invariants
//   R1. The order in which jobs are added at one time changes no bit of any time. Equal jobs may
//       therefore be added as one job, whose weight is their number.
//   R2. `#given` returns to 0 when there is no job, so that rounding errors do not add up.

import type { EventQueue } from "./events.ts";

interface Job {
  /** The value of `#given` at which the job ends. */
  readonly end: number;
  readonly weight: number;
  readonly done: (of: unknown) => void;
  readonly of: unknown;
}

export class SharedResource {
  readonly #queue: EventQueue;
  readonly #servers: number;
  readonly #jobs: Job[] = [];
  /** Weight of all jobs. */
  #count = 0;
  /** Seconds of service that each job has got since the resource was idle, as of `#time`. */
  #given = 0;
  #time = 0;
  /** Time at which the next job ends. */
  #next = Number.POSITIVE_INFINITY;
  #busy = 0;

  constructor(queue: EventQueue, servers = 1) {
    this.#queue = queue;
    this.#servers = servers;
  }

  /** Adds `weight` equal jobs, each of which would take `seconds` alone on the resource. */
  add<T>(seconds: number, weight: number, done: (of: T) => void, of: T): void {
    const { now } = this.#queue;
    this.#settle();
    this.#advance(now);
    const end = this.#given + seconds;
    this.#jobs.push({ end, weight, done: done as (of: unknown) => void, of });
    this.#count += weight;
    this.#plan();
  }

  /** Seconds of use so far; while only a share of the servers is in use, that share counts. */
  busy(): number {
    this.#settle();
    this.#advance(this.#queue.now);
    return this.#busy;
  }

  #advance(time: number): void {
    const passed = time - this.#time;
    this.#given += passed * Math.min(1, this.#servers / this.#count);
    if (this.#count > 0) this.#busy += passed * Math.min(1, this.#count / this.#servers);
    else this.#given = 0; // R2
    this.#time = time;
  }

  /** Ends the jobs that are due before a call at this time. R1 */
  #settle(): void {
    while (this.#next <= this.#queue.now) {
      const at = this.#next;
      for (const { done, of } of this.#end()) this.#queue.at(at, done, of);
    }
  }

  /** Removes the jobs that are due next. */
  #end(): Job[] {
    this.#advance(this.#next);
    let least = Number.POSITIVE_INFINITY;
    for (const { end } of this.#jobs) if (end < least) least = end;
    const jobs = this.#jobs;
    const ended: Job[] = [];
    let left = 0;
    for (const job of jobs) {
      if (job.end > least) jobs[left++] = job;
      else {
        this.#count -= job.weight;
        ended.push(job);
      }
    }
    jobs.length = left;
    this.#given = least;
    this.#plan();
    return ended;
  }

  #plan(): void {
    let least = Number.POSITIVE_INFINITY;
    for (const { end } of this.#jobs) if (end < least) least = end;
    const rate = Math.min(1, this.#servers / this.#count);
    const next = this.#time + Math.max(0, least - this.#given) / rate;
    if (next === this.#next) return;
    this.#next = next;
    if (next !== Number.POSITIVE_INFINITY) this.#queue.at(next, due, this);
  }

  /** Called at the planned end of a job, which jobs that were added since may have delayed. */
  end(): void {
    if (this.#next !== this.#queue.now) return;
    for (const { done, of } of this.#end()) done(of);
  }
}

function due(resource: SharedResource): void {
  resource.end();
}
