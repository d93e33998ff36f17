// Master of the preprocessing service of one generation: leases the splits that readers need to
// workers, watches deadlines, and determines the number of workers.
//
//   readers ──want──▶ ┌────────┐ ──leased──▶ workers ──data──▶ readers
//                     │ master │ ◀──done────
//   pools ◀─pool.scale└────────┘ ──failed──▶ readers
//
// Takes   the frames of the service (src/exchange/splits/split-frames.ts)
// Emits   pool.scale, to the worker pool of each host
//
// Invariants
//   M1. It keeps no state that cannot be lost: readers repeat their needs, and workers their
//       requests. A new master has the whole state within `reportMs` of the readers.
//   M2. It decides which worker makes a split, never its content: the model does not depend on it,
//       to the bit (law 4).

import { fromCallback, setup } from "xstate";
import {
  decodeFrame,
  encodeFrame,
  hereSubject,
  type MasterAction,
  masterSubject,
  nameOf,
  readerSubject,
  type SplitFrameName,
  type SplitFrames,
  type SplitPlace,
} from "../../../src/exchange/splits/split-frames.ts";
import { leaseMs } from "../../../src/exchange/splits/split-worker.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import { packageVersion } from "../../../src/ports/entry-file.ts";
import type { Frame, Subscription } from "../../../src/wire/messages/transport.ts";
import { defineActor } from "../../runtime/define-actor.ts";
import { type Mailbox, type Network, openMailbox, type RunScope } from "../../runtime/mailbox.ts";
import type { StreamOrigins } from "../data/stream-origins.ts";
import { intervalMs } from "./autoscaler.ts";
import { type GivenUp, SplitTable } from "./split-table.ts";
import { WorkerCount } from "./worker-count.ts";

export interface MasterInput {
  readonly network: Network;
  readonly scope: RunScope;
  readonly job: JobSpec;
  /** Origins of the splits, for workers that belong to no host. */
  readonly origins: StreamOrigins;
  /** Number of hosts of the generation, each with a pool of workers. */
  readonly hosts: number;
  /** Called when the wanted number of workers changes, and every ten seconds. */
  readonly onWorkers?: (report: ServiceReport) => void;
}

/** State of the service. */
export interface ServiceReport {
  readonly workers: number;
  readonly wanted: number;
  /**
   * Shares of the last second: `busy` of the workers' time, `stalled` of the readers' time,
   * `buffered` of the splits needed next.
   */
  readonly busy: number;
  readonly stalled: number;
  readonly buffered: number;
  /** Counts of this master: splits made, their samples, and splits made again. */
  readonly splits: number;
  readonly samples: number;
  readonly retries: number;
}

export interface MasterContext extends MasterInput {
  readonly mailbox: Mailbox;
}

/** Interval of deadline checks. */
const tickMs = 50;
/** Interval of the `here` announcement. */
const hereMs = 500;
/** Longest interval between reports of the service's state. */
const reportMs = 10_000;
/** Silence after which a worker is lost; it sends every fifth of a second. */
const silenceMs = 1500;

/** A worker that waits for a split. */
interface Waiting {
  readonly worker: string;
  readonly reply: string;
  readonly sinceMs: number;
}

const serving = fromCallback<{ type: string }, MasterContext>(({ input }) => {
  const master = new Master(input);
  return () => master.close();
});

/** The service drawn in the header, as an actor. */
export const masterMachine = defineActor(
  setup({
    types: {} as { context: MasterContext; input: MasterInput },
    actors: { serving },
  }).createMachine({
    id: "master",
    context: ({ input }) => ({
      ...input,
      mailbox: openMailbox(input.network, input.scope, { role: "master", index: 0 }),
    }),
    invoke: { src: "serving", input: ({ context }) => context },
  }),
);

class Master {
  readonly #context: MasterContext;
  readonly #place: SplitPlace;
  readonly #table: SplitTable;
  readonly #workers: WorkerCount;
  readonly #subscriptions: readonly Subscription[];
  #waiting: Waiting[] = [];
  #hereMs = Number.NEGATIVE_INFINITY;
  #scaleMs: number;
  #reported = { wanted: -1, atMs: 0 };
  #cancel = () => {};

  constructor(context: MasterContext) {
    const { network, scope, job } = context;
    const { preprocessing } = job;
    if (preprocessing === undefined) throw new RangeError("The job has no preprocessing service");
    const { run, generation } = scope;
    this.#context = context;
    this.#place = { cluster: network.cluster, run, generation };
    const { attemptsMax, splitDeadlineMs: deadlineMs } = preprocessing;
    const resendMs = deadlinesOf(job).resend;
    this.#table = new SplitTable({ deadlineMs, attemptsMax, resendMs, silenceMs });
    this.#workers = new WorkerCount(preprocessing, network.clock.now());
    this.#scaleMs = network.clock.now() + intervalMs;
    const handlers: { readonly [Action in MasterAction]: (frame: Frame) => void } = {
      want: (frame) => this.#want(decodeFrame("want", frame)),
      lease: (frame) => this.#lease(frame),
      working: (frame) => this.#table.seen(decodeFrame("working", frame).worker, this.#nowMs()),
      done: (frame) => this.#done(decodeFrame("done", frame)),
      gone: (frame) => this.#lose(decodeFrame("gone", frame).worker),
      session: ({ reply }) => this.#send(reply, "session", { session: context.origins }),
    };
    this.#subscriptions = Object.entries(handlers).map(([action, handle]) =>
      network.transport.subscribe(masterSubject(this.#place, action as MasterAction), handle),
    );
    this.#tick();
  }

  close(): void {
    this.#cancel();
    for (const one of this.#subscriptions) one.unsubscribe();
    for (const { reply } of this.#waiting) this.#send(reply, "leased", {});
    const { log } = this.#context.network;
    const { counts } = this.#table;
    log.write("info", "the preprocessing service ended", { ...this.#about, ...counts });
  }

  #want({ reader, splits, buffered, stalledMs }: SplitFrames["want"]): void {
    const { hosts, job } = this.#context;
    if (reader >= hosts * job.readers) return; // Not a reader of this generation.
    this.#table.want(reader, splits, this.#nowMs());
    this.#workers.addReader(reader, { buffered, wanted: splits.length, stalledMs });
    this.#serveWaiting();
  }

  #lease(frame: Frame): void {
    const { worker, busyMs, forMs } = decodeFrame("lease", frame);
    if (frame.reply === undefined) return;
    this.#workers.addWorker(busyMs, forMs);
    this.#table.seen(worker, this.#nowMs());
    const others = this.#waiting.filter((one) => one.worker !== worker);
    this.#waiting = [...others, { worker, reply: frame.reply, sinceMs: this.#nowMs() }];
    this.#serveWaiting();
  }

  #done(done: SplitFrames["done"]): void {
    const { error, lease } = done;
    if (error !== undefined) {
      const fields = { ...this.#about, worker: done.worker, lease, code: error.code };
      this.#context.network.log.write("warn", error.message, fields);
    }
    const givenUp = this.#table.done(done, this.#nowMs());
    if (givenUp !== undefined) this.#giveUp(givenUp);
    this.#serveWaiting(); // The split may be made again.
  }

  #lose(worker: string): void {
    this.#waiting = this.#waiting.filter((one) => one.worker !== worker);
    this.#table.gone(worker);
    for (const one of this.#table.expire(this.#nowMs())) this.#giveUp(one);
    this.#serveWaiting();
  }

  /** Leases splits to waiting workers, in order of arrival. */
  #serveWaiting(): void {
    while (this.#waiting.length > 0) {
      const [next, ...others] = this.#waiting;
      const lease = next && this.#table.lease(next.worker, this.#nowMs());
      if (lease === undefined) return;
      this.#waiting = others;
      this.#send(next?.reply, "leased", lease);
    }
  }

  #giveUp({ reader, split, error, attempts }: GivenUp): void {
    const { transport, log } = this.#context.network;
    log.write("error", `split ${nameOf(split)} failed on too many workers`, {
      ...this.#about,
      attempts,
    });
    const { payload, headers } = encodeFrame("failed", { split, error });
    transport.publish(readerSubject(this.#place, reader, "failed"), payload, { headers });
  }

  #tick(): void {
    const nowMs = this.#nowMs();
    for (const one of this.#table.expire(nowMs)) this.#giveUp(one);
    this.#serveWaiting();
    const late = this.#waiting.filter(({ sinceMs }) => nowMs - sinceMs >= leaseMs);
    this.#waiting = this.#waiting.filter((one) => !late.includes(one));
    for (const { reply } of late) this.#send(reply, "leased", {});
    if (nowMs - this.#hereMs >= hereMs) {
      this.#hereMs = nowMs;
      const { run, generation } = this.#place;
      this.#send(hereSubject(this.#place.cluster), "here", {
        run,
        generation,
        version: packageVersion(),
      });
    }
    if (nowMs >= this.#scaleMs) this.#scale(nowMs);
    this.#cancel = this.#context.network.clock.after(tickMs, () => this.#tick());
  }

  /**
   * Sends every pool its share of the wanted worker threads: the wanted workers less the worker
   * processes. Sent in every interval, even without a change.
   */
  #scale(nowMs: number): void {
    const { mailbox, hosts, job, onWorkers } = this.#context;
    this.#scaleMs = nowMs + intervalMs;
    const names = this.#table.workers;
    const { wanted, busy, stalled, buffered } = this.#workers.endInterval(names.length, nowMs);
    const processes = names.filter((name) => !name.startsWith("worker:")).length;
    const threads = job.preprocessing?.threads === true ? Math.max(0, wanted - processes) : 0;
    for (let index = 0; index < hosts; index++) {
      const share = Math.floor((threads + hosts - 1 - index) / hosts);
      mailbox.send({ role: "pool", index }, "pool.scale", { workers: share });
    }
    if (wanted === this.#reported.wanted && nowMs - this.#reported.atMs < reportMs) return;
    this.#reported = { wanted, atMs: nowMs };
    const { done, samples, expired, resent } = this.#table.counts;
    const counts = { splits: done, samples, retries: expired + resent };
    onWorkers?.({ workers: names.length, wanted, busy, stalled, buffered, ...counts });
  }

  #send<Name extends SplitFrameName>(
    subject: string | undefined,
    name: Name,
    body: SplitFrames[Name],
  ): void {
    if (subject === undefined) return;
    const { payload, headers } = encodeFrame(name, body);
    this.#context.network.transport.publish(subject, payload, { headers });
  }

  #nowMs(): number {
    return this.#context.network.clock.now();
  }

  get #about() {
    const { run, generation } = this.#place;
    return { run, generation, actor: "master:0" };
  }
}
