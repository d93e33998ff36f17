// A leader under a lease: stands by until it is elected, then takes up the runs of the former
// leader, and leads for as long as it holds the lease.
//
//   standing by ─▶ leading: journal read ─▶ runs taken up ─▶ Leader ─▶ lost: the tree ends
//
// Invariants
//   O1. While the process does not hold the lease, it sends and receives nothing as the leader
//       (fencedTransport). Writes of its threads are refused by the store once the successor
//       has claimed a generation.
//   O2. Nor does it claim a generation: that would fence the successor. A claim at the very moment
//       of losing the lease costs the successor a restore.
//   O3. A run or a request is acknowledged only if a successor will find it: it is in the journal,
//       and no other process had become the leader when it was written.

import {
  JournalDamagedError,
  LeaderReplacedError,
  recordError,
  StoreFailedError,
} from "../../src/errors/errors.ts";
import { inTurns } from "../../src/ports/turns.ts";
import type { Frame, Transport } from "../../src/wire/messages/transport.ts";
import type { Awaitable, Term } from "../../storage/cluster/lease.ts";
import type { RunJournal } from "../../storage/cluster/run-journal.ts";
import type { MirrorLink } from "../jobs/mirror/mirror-link.ts";
import { mirroring, RunMirror } from "../jobs/mirror/run-mirror.ts";
import { openRunKeeper } from "../run/state/journal-writer.ts";
import { Registry } from "../run/state/registry.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { PublishEvent } from "../run/state/run-record.ts";
import { Leadership, refuseSecondLeader } from "./election.ts";
import { Leader, type LeaderOptions } from "./leader.ts";
import type { LeasePlace } from "./lease-place.ts";
import { lostQueue } from "./queue-recovery.ts";

export interface ElectedLeaderOptions extends Omit<LeaderOptions, "registry" | "mirror"> {
  /** Where the lease and the runs' journal are stored. */
  readonly place: LeasePlace;
  readonly leaseMs: number;
  /**
   * Whether the process must refuse to lead while another leader answers: only processes under one
   * lease stand by for each other.
   */
  readonly isAlone?: boolean;
  /** The mirror of its runs; undefined: none. */
  readonly mirror?: MirrorLink | undefined;
  /** Finished runs that are remembered. @default the registry's */
  readonly finishedMax?: number | undefined;
  /** Prefix of the names of runs. */
  readonly prefix: string;
  /** Publishes an event over this network. */
  readonly publish: (network: LeaderOptions["network"], ...event: Parameters<PublishEvent>) => void;
  readonly onStandby: (leader: string) => void;
  readonly onLeading: () => void;
  /**
   * Called with LeadershipLostError, ClusterServedError, or the disk's error at the start of the
   * term.
   */
  readonly onLost: (error: unknown) => void;
}

/** Share of a lease for which writes in progress may continue after the lease is lost. */
const fencedShare = 0.4;

/** Host indices per term; no two terms assign the same index. */
const hostsPerTerm = 1_000_000;

export class ElectedLeader {
  readonly #options: ElectedLeaderOptions;
  readonly #leadership: Leadership;
  #leader: Leader | undefined;
  #journal: RunJournal<RunEvent> | undefined;
  #mirror: RunMirror | undefined;
  #isStopped = false;
  /** After this, the journal accepts nothing, so nothing is published. */
  #isClosed = false;
  /** Messages withheld because the lease was not held, and writes that the store refused. */
  #withheld = 0;
  #refused = 0;

  constructor(options: ElectedLeaderOptions) {
    this.#options = options;
    const { network, place, leaseMs, onStandby, onIncident } = options;
    this.#leadership = new Leadership({
      clock: network.clock,
      lease: place.lease,
      leaseMs,
      owner: network.createdBy,
      onStandby: (leader) => onStandby(leader.owner),
      onLeading: (term, former) => {
        this.#lead(term, former).catch((error) => {
          void this.#leadership.close(); // Another process may be able to lead.
          this.#end(error);
        });
      },
      onLost: (error) => this.#lose(error),
      onError: (error) => {
        const reason = recordError(error);
        onIncident({ offender: "lease", supervisor: "process", context: place.name, reason });
      },
    });
  }

  /** Messages withheld and writes refused while this process was a stale leader. */
  get refused(): { readonly messages: number; readonly writes: number } {
    return { messages: this.#withheld, writes: this.#refused };
  }

  /**
   * Releases the lease and stops all runs at their current state: the next leader takes them up.
   */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#leader?.stop();
    await this.#mirror?.close();
    this.#isClosed = true;
    await this.#journal?.close();
    await this.#leadership.close();
    await this.#options.place.close();
  }

  async #lead(term: number, former: Term | undefined): Promise<void> {
    const options = this.#options;
    const { place, prefix, membership, onLeading } = options;
    const leadership = this.#leadership;
    const transport = fencedTransport(
      options.network.transport,
      () => leadership.isHeld && !this.#isClosed,
      () => this.#withheld++,
      term,
    );
    if (options.isAlone === true) await refuseSecondLeader(options.network);
    const confirm = () => leadership.confirm();
    const assertLeading = () => leadership.assertLeading();
    const network = { ...options.network, transport, assertLeading };
    const journal = place.journalOf(term, confirm);
    this.#journal = journal;
    if (this.#isStopped) return await journal.close();
    const report = (offender: string, error: unknown, context = "restoring the runs") => {
      const where = { offender, supervisor: "lease", context };
      options.onIncident({ ...where, reason: recordError(error) });
    };
    const mark = place.markOf(term);
    const { keeper, publish } = openRunKeeper({
      journal,
      mark,
      clock: network.clock,
      retryMs: options.leaseMs / 5,
      assertLeading() {
        if (!leadership.isHeld) assertLeading();
      },
      confirm, // O3
      entries: () => registry.entries(),
      publish: (event, tenant) => {
        // Counts the leader's own writes; those of its threads are counted when the threads end.
        const isOwn = event.type === "run.incident" && !event.offender.includes(":");
        if (isOwn && event.error.code === "GENERATION_FENCED") this.#refused++;
        this.#mirror?.published(event);
        options.publish(network, event, tenant);
      },
      onError: (error, context) => report("journal", error, context),
    });
    const mirrored = mirroring(keeper, (run) => this.#mirror?.changed(run));
    const name = `${prefix}${term}-`;
    const registry: Registry = new Registry(name, publish, mirrored, options.finishedMax);
    place.onForgotten(() => void keeper.kept().catch((error) => report("journal", error)));
    const onRefusal = (error: unknown) => report("journal", error);
    const found = this.#insist(onRefusal, () => journal.readFormer());
    const { entries, damaged } = found instanceof Promise ? await found : found;
    if (damaged > 0) report("journal", new JournalDamagedError(place.name, damaged));
    const { mirror } = options;
    const lost =
      entries.length > 0 || mirror === undefined ? [] : await lostQueue(mirror, options.network);
    if (this.#isStopped) return await journal.close();
    const isWhole = entries.length > 0 && damaged === 0 && mark.isFormerWhole();
    const restoring = registry.restoring([...entries, ...lost], report, isWhole);
    const renumbered = await inTurns(network.clock, restoring);
    if (this.#isStopped) return await journal.close();
    if (former?.isReleased === true) registry.crashes.reset();
    const goOn = async () => {
      await journal.synced(); // Writes the objects that `begin` could not write.
      await confirm();
    };
    const begun = this.#insist(onRefusal, () => journal.begin(registry.entries()), goOn);
    if (begun !== undefined) await begun;
    mark.set();
    for (const event of renumbered) publish(...event);
    const isLeading = () => leadership.isHeld;
    this.#mirror = mirror && new RunMirror(mirror, { network, registry, term, isLeading });
    membership.countFrom(1 + hostsPerTerm * (term - 1));
    this.#recordSuccession(registry, former, network.createdBy);
    onLeading();
    this.#leader = new Leader({ ...options, network, registry, mirror: this.#mirror });
  }

  /**
   * Runs `body`, a step of the start of a term. If the store refuses it, repeats `again` until it
   * succeeds or another process leads, as there may be no other candidate. Reports the first
   * refusal.
   */
  #insist<Result>(
    tell: (error: unknown) => void,
    body: () => Awaitable<Result>,
    again = body,
  ): Awaitable<Result> {
    const first = body();
    return first instanceof Promise ? this.#untilAccepted(tell, first, again) : first;
  }

  async #untilAccepted<Result>(
    tell: (error: unknown) => void,
    first: Promise<Result>,
    again: () => Awaitable<Result>,
  ): Promise<Result> {
    const { network, leaseMs } = this.#options;
    let isTold = false;
    for (let result: Awaitable<Result> = first; ; result = again()) {
      try {
        return await result;
      } catch (error) {
        if (!(error instanceof StoreFailedError) || this.#isStopped) throw error;
        if (!isTold) tell(error);
        isTold = true;
      }
      await new Promise<void>((resume) => network.clock.after(leaseMs / 5, resume));
      this.#leadership.assertLeading();
    }
  }

  /** Records the change of leader in each running run, as the first cause of its restore. */
  #recordSuccession(registry: Registry, former: Term | undefined, next: string): void {
    if (former === undefined) return;
    const expired = `has not renewed its lease for ${this.#options.leaseMs} ms`;
    const why = former.isReleased ? "has released its lease" : expired;
    const error = recordError(new LeaderReplacedError(former.owner, why, next));
    for (const record of registry.all()) {
      if (record.status !== "running") continue;
      const where = { offender: "leader", supervisor: "lease", context: `term ${former.term}` };
      const at = this.#options.network.clock.date();
      record.fail(0, { ...where, reason: error }, at);
      record.incidents.act("lease", `handed the cluster over to ${next}`, at);
    }
  }

  /**
   * Sends nothing from here on (O1). The end is delayed, so that writes in progress reach the fence
   * and are counted.
   */
  #lose(error: unknown): void {
    const { network, leaseMs } = this.#options;
    network.clock.after(fencedShare * leaseMs, () => this.#end(error));
  }

  #end(error: unknown): void {
    this.#leader?.stop();
    void this.#journal?.close();
    this.#options.onLost(error);
  }
}

// The fenced transport of a leader: while the leader does not hold its lease, it sends and receives
// nothing as the leader of the cluster.

/**
 * Wraps a connection so that it passes frames only while `isOpen`. Calls `onWithheld` for each
 * frame that is not sent. Each term has queue groups of its own: a former leader that hangs or is
 * cut off stays a member of its groups until the broker notices, and in a common group it would get
 * a part of the requests.
 */
export function fencedTransport(
  transport: Transport,
  isOpen: () => boolean,
  onWithheld: () => void,
  term: number,
): Transport {
  return {
    address: transport.address,
    frameBytesMax: transport.frameBytesMax,
    bodyBytesMax: transport.bodyBytesMax,
    pending: () => transport.pending(),
    publish(subject, payload, options) {
      if (isOpen()) transport.publish(subject, payload, options);
      else onWithheld();
    },
    subscribe(subject, receive, options = {}) {
      const { queue } = options;
      const own = queue === undefined ? options : { ...options, queue: `${queue}-${term}` };
      const pass = (frame: Frame) => {
        if (isOpen()) receive(frame);
      };
      return transport.subscribe(subject, pass, own);
    },
    request: (subject, payload, options) => transport.request(subject, payload, options),
    flush: () => transport.flush(),
    status: () => transport.status(),
    onStatus: (receive) => transport.onStatus(receive),
    close: () => transport.close(),
  };
}
