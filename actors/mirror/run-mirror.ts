// The mirror of runs: copies what the leader knows of them into JetStream, where it is there: their
// events into streams, the queue into a bucket (src/wire/jetstream/nats-mirror.ts).
//
//   a run changed ─▶ due ──every turn, so many runs──▶ its events after the last that is there,
//                     ▲                                then its entry in the queue
//                     └── refused: all of this again, after a while
//
// What to copy is read off the run when its turn comes, so that there is no queue of messages to
// grow, and the changes of a turn are one. Nobody waits for it.
//
// Invariants
//   A1. Events of a run are in its stream in order, each once: an event is added only behind the
//       event that the stream was read to end with. Events that are missing at a start, or after
//       the server came back, are added then.
//   A2. Only who leads writes. What an earlier root wrote late is not the last any more, once its
//       successor has written all entries anew.
//   A3. An event is copied once it was told, and so after the journal has it.
//   A4. What JetStream refuses costs a line of the log and a count, and is tried again.

import type { Cancel } from "../../src/ports/clock.ts";
import { streamSubject } from "../../src/wire/messages/subjects.ts";
import { isOverAt } from "../jobs/job-api.ts";
import type { Registry } from "../run/state/registry.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { RunKeeper, RunRecord } from "../run/state/run-record.ts";
import type { Network } from "../runtime/mailbox.ts";
import type { MirrorLink } from "./mirror-link.ts";
import { decodeEntry, entryOf } from "./queue-entry.ts";

/** Whose runs they are. */
export interface RunMirrorOptions {
  readonly network: Pick<Network, "cluster" | "clock" | "log">;
  readonly registry: Registry;
  /** Of a leader that keeps its queue; undefined: there is none to copy. */
  readonly term?: number;
  readonly isLeading: () => boolean;
}

/** What became of the copies so far. */
export interface MirrorReport {
  readonly events: number;
  readonly entries: number;
  /** What JetStream did not take; it was tried again, but for events larger than a message. */
  readonly refused: number;
  /** Runs that have changed since they were copied. */
  readonly due: number;
}

/** What is known of the copy of a run. */
interface Copy {
  /** Its place among the submissions. */
  readonly order: number;
  /** The number of the first event that is not there; undefined: not known. */
  next?: number | undefined;
  /** Of the last event of the run, in its stream. */
  place: number;
  /** The number of the last event that was told. A3 */
  told: number;
  /** Of its entry in the queue; undefined: not known. */
  revision?: number | undefined;
  /** The entry, as it was written last. */
  text?: string | undefined;
  /** It was over when the mirror was opened: a stream may have let go of all of it. */
  isOld: boolean;
}

/** Time between two turns, and the runs and the events of each that are copied in one. */
const roundMs = 50;
const roundRuns = 64;
const roundEvents = 100;
/** Waits after a refusal: the first, and the longest. */
const retryMs = 1000;
const retryMsMax = 60_000;
/** Longest that an end waits for what is due. */
const closeMs = 2000;

export class RunMirror {
  readonly #link: MirrorLink;
  readonly #options: RunMirrorOptions;
  /** The leader's term, where the queue is copied. */
  readonly #term: number | undefined;
  readonly #copies = new Map<string, Copy>();
  readonly #due = new Set<string>();
  readonly #refused = new Set<string>();
  /** By tenant: whether the stream is whole. */
  readonly #streams = new Map<string | undefined, Promise<boolean>>();
  readonly #done = { events: 0, entries: 0, refused: 0 };
  #orders = 0;
  #isSwept = false;
  #isAtWork = false;
  #copying = 0;
  #isInTrouble = false;
  #isClosed = false;
  #waitMs = retryMs;
  #cancelRetry: Cancel | undefined;
  #onIdle: (() => void) | undefined;

  constructor(link: MirrorLink, options: RunMirrorOptions) {
    this.#link = link;
    this.#options = options;
    this.#term = link.queue === "off" ? undefined : options.term;
    this.#begin();
    void link.nats.watch(() => this.#begin());
  }

  get report(): MirrorReport {
    return { ...this.#done, due: this.#due.size + this.#copying + this.#refused.size };
  }

  /** The event may be copied, and all before it. A3 */
  told({ run, seq }: RunEvent): void {
    this.#copyOf(run).told = seq;
    this.changed(run);
  }

  /** To be copied when its turn comes. */
  changed(run: string): void {
    if (this.#refused.has(run) || this.#isClosed) return;
    const copy = this.#copies.get(run);
    if (copy !== undefined) copy.isOld = false;
    this.#due.add(run);
    this.#wake();
  }

  /** Copies what is due, for a short while, and then nothing more. */
  async close(): Promise<void> {
    const { network, isLeading } = this.#options;
    const { clock } = network;
    if (isLeading() && (this.#due.size > 0 || this.#isAtWork)) {
      await new Promise<void>((resolve) => {
        const cancel = clock.after(closeMs, resolve);
        this.#onIdle = () => {
          cancel();
          resolve();
        };
      });
    }
    this.#isClosed = true;
    this.#cancelRetry?.();
  }

  /** Nothing is known of what is there: at the start, and when the server has come back. A1 */
  #begin(): void {
    this.#link.nats.forget();
    this.#streams.clear();
    this.#isSwept = false;
    for (const record of this.#options.registry.values()) {
      const known = this.#copies.get(record.run);
      const wasThere = known === undefined || known.isOld || known.place > 0;
      const isOld = record.isOver && wasThere;
      const order = known?.order ?? this.#orders++;
      const all = record.since(0, Number.POSITIVE_INFINITY);
      const told = known?.told ?? all.at(-1)?.seq ?? -1;
      this.#copies.set(record.run, { order, place: 0, told, isOld });
      this.#due.add(record.run);
    }
    this.#again();
  }

  /** What was refused is due again. */
  #again(): void {
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    for (const run of this.#refused) this.#due.add(run);
    this.#refused.clear();
    this.#wake();
  }

  #wake(): void {
    if (this.#isAtWork || this.#isClosed) return;
    this.#isAtWork = true;
    this.#options.network.clock.after(roundMs, () => void this.#round());
  }

  async #round(): Promise<void> {
    const { isLeading } = this.#options;
    if (!this.#isClosed && isLeading()) {
      await this.#sweep();
      const runs = [...this.#due].slice(0, roundRuns);
      for (const run of runs) this.#due.delete(run);
      this.#copying = runs.length;
      const copying = runs.map((run) =>
        this.#copy(run).catch((error: unknown) => {
          this.#refused.add(run);
          this.#refuse(error);
        }),
      );
      await Promise.all(copying);
      this.#copying = 0;
      if (this.#cancelRetry === undefined) this.#settle();
    }
    this.#isAtWork = false;
    if (this.#due.size > 0) this.#wake();
    else this.#onIdle?.();
  }

  async #copy(run: string): Promise<void> {
    const record = this.#options.registry.get(run);
    const term = this.#term;
    if (record === undefined) {
      this.#copies.delete(run);
      if (term !== undefined) await this.#link.nats.remove(run);
      return;
    }
    const copy = this.#copyOf(run);
    if (this.#link.hasStreams) await this.#copyEvents(record, copy);
    if (term !== undefined) await this.#copyEntry(record, copy, term);
  }

  /** A1 */
  async #copyEvents(record: RunRecord, copy: Copy): Promise<void> {
    const { nats } = this.#link;
    const { run, tenant } = record;
    const isWhole = await this.#streamOf(tenant);
    const subject = streamSubject(this.#options.network.cluster, run, tenant);
    if (copy.next === undefined) {
      const last = await nats.last(tenant, subject);
      copy.place = last?.place ?? 0;
      if (last !== undefined) copy.next = seqOf(last.payload) + 1;
      else copy.next = copy.isOld && !isWhole ? Number.POSITIVE_INFINITY : 0;
    }
    for (const event of record.since(copy.next, roundEvents)) {
      if (event.seq > copy.told) return;
      const payload = new TextEncoder().encode(JSON.stringify(event));
      if (payload.length > nats.messageBytesMax) {
        this.#done.refused++;
        copy.next = event.seq + 1;
        continue;
      }
      const id = `${run}/${event.generation}/${event.seq}`;
      const place = await nats.append(subject, payload, { id, after: copy.place });
      if (place === undefined) {
        copy.next = undefined; // Another one is the last: it is looked for in the next turn.
        break;
      }
      copy.place = place;
      copy.next = event.seq + 1;
      this.#done.events++;
    }
    const [more] = record.since(copy.next ?? 0, 1);
    if (more !== undefined && more.seq <= copy.told) this.#due.add(run);
  }

  /** A2 */
  async #copyEntry(record: RunRecord, copy: Copy, term: number): Promise<void> {
    const { nats } = this.#link;
    const { run } = record;
    const text = JSON.stringify(entryOf(record, { order: copy.order, term }));
    if (text === copy.text) return;
    const value = new TextEncoder().encode(text);
    if (value.length > nats.messageBytesMax) {
      this.#done.refused++;
      copy.text = text;
      return;
    }
    copy.revision ??= (await nats.queuedAs(run))?.revision ?? 0;
    copy.revision = await nats.compareAndSet(run, value, copy.revision);
    if (copy.revision === undefined) {
      this.#due.add(run); // An earlier root wrote it: it is read, and written over.
      return;
    }
    copy.text = text;
    this.#done.entries++;
  }

  /** Entries of runs that are not known: what is over goes, of the rest it is told. */
  async #sweep(): Promise<void> {
    const { registry, network } = this.#options;
    const { nats } = this.#link;
    if (this.#isSwept || this.#cancelRetry !== undefined || this.#term === undefined) return;
    try {
      const unknown: string[] = [];
      for (const [run, { value, revision }] of await nats.queued()) {
        if (registry.get(run) !== undefined) {
          this.#copyOf(run).revision = revision;
          continue;
        }
        const status = decodeEntry(value)?.status;
        if (status !== undefined && isOverAt(status)) await nats.remove(run);
        else unknown.push(run);
      }
      this.#isSwept = true;
      if (unknown.length === 0) return;
      const message = `JetStream has jobs that this root does not know: ${unknown.join(", ")}`;
      network.log.write("warn", message, { actor: "mirror:0" });
    } catch (error) {
      this.#refuse(error);
    }
  }

  #streamOf(tenant: string | undefined): Promise<boolean> {
    const { nats, tenants } = this.#link;
    const known = this.#streams.get(tenant);
    if (known !== undefined) return known;
    const users = tenant === undefined ? {} : (tenants[tenant]?.users ?? {});
    const opening = nats.openStream(tenant, Object.keys(users));
    this.#streams.set(tenant, opening);
    return opening;
  }

  #copyOf(run: string): Copy {
    const known = this.#copies.get(run);
    if (known !== undefined) return known;
    // One that was submitted since then: nothing of it is there, or it is seen to be (M1).
    const revision = this.#isSwept ? 0 : undefined;
    const copy = { order: this.#orders++, next: 0, place: 0, told: -1, revision, isOld: false };
    this.#copies.set(run, copy);
    return copy;
  }

  /** A4 */
  #refuse(error: unknown): void {
    const { network } = this.#options;
    this.#done.refused++;
    if (!this.#isInTrouble) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `JetStream does not take copies of runs, which is tried again: ${reason}`;
      network.log.write("warn", message, { actor: "mirror:0" });
    }
    this.#isInTrouble = true;
    if (this.#cancelRetry !== undefined || this.#isClosed) return;
    this.#cancelRetry = network.clock.after(this.#waitMs, () => {
      // Streams and bucket may be gone: they are made again, and what was there is read again.
      this.#link.nats.forget();
      this.#streams.clear();
      for (const run of this.#refused) this.#forgetCopy(run);
      this.#again();
    });
    this.#waitMs = Math.min(2 * this.#waitMs, retryMsMax);
  }

  #forgetCopy(run: string): void {
    const copy = this.#copies.get(run);
    if (copy === undefined) return;
    copy.next = undefined;
    copy.revision = undefined;
    copy.text = undefined;
  }

  #settle(): void {
    if (!this.#isInTrouble) return;
    this.#isInTrouble = false;
    this.#waitMs = retryMs;
    this.#options.network.log.write("info", "JetStream takes copies of runs again", {
      actor: "mirror:0",
    });
  }
}

/** A keeper that tells a mirror of new runs, of wishes and of what is forgotten. */
export function mirroring(keeper: RunKeeper, changed: (run: string) => void): RunKeeper {
  return {
    keep(entry) {
      keeper.keep(entry);
      if (entry.kind !== "event") changed(entry.run);
    },
    kept: () => keeper.kept(),
    forget(run) {
      keeper.forget(run);
      changed(run);
    },
  };
}

function seqOf(payload: Uint8Array): number {
  return (JSON.parse(new TextDecoder().decode(payload)) as RunEvent).seq;
}
