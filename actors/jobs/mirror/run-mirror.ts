// The mirror of runs: where JetStream is available, the leader copies the events of runs into its
// streams, and the queue into a bucket (src/wire/jetstream/nats-mirror.ts).
//
//   a run changed ─▶ due ──each round, a batch of runs──▶ its new events into the stream, then
//                     ▲                                    its entry into the queue
//                     └── refused: retried as a whole, after a while
//
// The content is read from the run when it is copied: no queue of messages can grow, and all
// changes of a round become one copy. Nothing waits for the mirror.
//
// Invariants
//   A1. Events of a run are in its stream in order, each once: an event is appended only after the
//       event that the stream was last seen to end with. Events that are missing at the start, or
//       after the server came back, are appended then.
//   A2. Only the leader writes. A late write of a former leader is superseded, because its
//       successor rewrites all entries.
//   A3. An event is copied after it was published, and thus after it is in the journal.
//   A4. A refusal of JetStream is logged and counted, and the copy is retried.

import type { Cancel } from "../../../src/ports/clock.ts";
import { streamSubject } from "../../../src/wire/messages/subjects.ts";
import type { Registry } from "../../run/state/registry.ts";
import type { RunEvent } from "../../run/state/run-events.ts";
import type { RunKeeper, RunRecord } from "../../run/state/run-record.ts";
import type { Network } from "../../runtime/mailbox.ts";
import { isOverAt } from "../job-api.ts";
import type { MirrorLink } from "./mirror-link.ts";
import { decodeEntry, entryOf } from "./queue-entry.ts";

/** The owner of the mirrored runs. */
export interface RunMirrorOptions {
  readonly network: Pick<Network, "cluster" | "clock" | "log">;
  readonly registry: Registry;
  /** The leader's term, if its queue is persisted; undefined: there is no queue to copy. */
  readonly term?: number;
  readonly isLeading: () => boolean;
}

/** Counters of the copies so far. */
export interface MirrorReport {
  readonly events: number;
  readonly entries: number;
  /** Refused copies; all were retried, except for events larger than a message. */
  readonly refused: number;
  /** Runs that have changed since their last copy. */
  readonly due: number;
}

/** The known state of a run's copy. */
interface Copy {
  /** Position in the order of submission. */
  readonly order: number;
  /** Number of the first event that is missing in the stream; undefined: unknown. */
  next?: number | undefined;
  /** Sequence of the run's last event in its stream. */
  place: number;
  /** Number of the last published event. A3 */
  published: number;
  /** Revision of the run's entry in the queue; undefined: unknown. */
  revision?: number | undefined;
  /** The last written entry. */
  text?: string | undefined;
  /**
   * Whether the run was over when the mirror was opened: its stream may have dropped all of its
   * events.
   */
  isOld: boolean;
}

/** Time between two rounds, and the most runs, and events of each run, that a round copies. */
const roundMs = 50;
const roundRuns = 64;
const roundEvents = 100;
/** First and longest pause after a refusal. */
const retryMs = 1000;
const retryMsMax = 60_000;
/** Longest time for which `close` still copies due runs. */
const closeMs = 2000;

export class RunMirror {
  readonly #link: MirrorLink;
  readonly #options: RunMirrorOptions;
  /** The leader's term; undefined: the queue is not copied. */
  readonly #term: number | undefined;
  readonly #copies = new Map<string, Copy>();
  readonly #due = new Set<string>();
  readonly #refused = new Set<string>();
  /** By tenant: whether the stream is complete. */
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

  /** Permits to copy the event and all before it. A3 */
  published({ run, seq }: RunEvent): void {
    this.#copyOf(run).published = seq;
    this.changed(run);
  }

  /** Marks a run as due. */
  changed(run: string): void {
    if (this.#refused.has(run) || this.#isClosed) return;
    const copy = this.#copies.get(run);
    if (copy !== undefined) copy.isOld = false;
    this.#due.add(run);
    this.#wake();
  }

  /** Copies due runs for a short time, then stops. */
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

  /** Resets the known state of all copies, at the start and when the server has come back. A1 */
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
      const published = known?.published ?? all.at(-1)?.seq ?? -1;
      this.#copies.set(record.run, { order, place: 0, published, isOld });
      this.#due.add(record.run);
    }
    this.#again();
  }

  /** Marks all refused runs as due. */
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

  /** Appends a run's missing events to its stream. A1 */
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
      if (event.seq > copy.published) return;
      const payload = new TextEncoder().encode(JSON.stringify(event));
      if (payload.length > nats.messageBytesMax) {
        this.#done.refused++;
        copy.next = event.seq + 1;
        continue;
      }
      const id = `${run}/${event.generation}/${event.seq}`;
      const place = await nats.append(subject, payload, { id, after: copy.place });
      if (place === undefined) {
        copy.next = undefined; // The stream has another last event: the next round reads it.
        break;
      }
      copy.place = place;
      copy.next = event.seq + 1;
      this.#done.events++;
    }
    const [more] = record.since(copy.next ?? 0, 1);
    if (more !== undefined && more.seq <= copy.published) this.#due.add(run);
  }

  /** Writes a run's entry in the queue. A2 */
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
      this.#due.add(run); // A former leader wrote the entry: the next round overwrites it.
      return;
    }
    copy.text = text;
    this.#done.entries++;
  }

  /** Handles entries of unknown runs: removes those of finished runs, and logs the rest. */
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
      const named = unknown.join(", ");
      const message = `JetStream has jobs of another queue, which stay there: ${named}`;
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
    // A run submitted after the sweep has no entry yet; a wrong guess is refused as a conflict.
    const revision = this.#isSwept ? 0 : undefined;
    const copy = {
      order: this.#orders++,
      next: 0,
      place: 0,
      published: -1,
      revision,
      isOld: false,
    };
    this.#copies.set(run, copy);
    return copy;
  }

  /** Logs and counts a refusal, and schedules a retry. A4 */
  #refuse(error: unknown): void {
    const { network } = this.#options;
    this.#done.refused++;
    if (!this.#isInTrouble) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `JetStream refuses the copies of runs; the leader will try again: ${reason}`;
      network.log.write("warn", message, { actor: "mirror:0" });
    }
    this.#isInTrouble = true;
    if (this.#cancelRetry !== undefined || this.#isClosed) return;
    this.#cancelRetry = network.clock.after(this.#waitMs, () => {
      // Streams and bucket may be gone: they are created again, and their contents read again.
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
    this.#options.network.log.write("info", "JetStream accepts the copies of runs again", {
      actor: "mirror:0",
    });
  }
}

/**
 * Wraps a keeper so that it also notifies the mirror of new runs, of requests (`request`), and of
 * forgotten runs.
 */
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
