// Leader election: decides by lease (storage/cluster/lease.ts) which of several processes leads a
// cluster.
//
//   standing by ──the lease expired, or is free──▶ leading ──a newer term──▶ lost
//        ▲  │                                         │
//        └──┘ its beat has moved                      └── closed: the lease is released
//
// Invariants
//   E1. Silence is counted in polls without a new beat, not in time: a process that was suspended
//       itself has not polled.
//   E2. A leader that could not renew for most of a lease considers the lease lost (`isHeld`)
//       before any other process can lead: it then sends and receives nothing as the leader.

import { ClusterServedError, LeadershipLostError, TrainingError } from "../../src/errors/errors.ts";
import type { Cancel, Clock } from "../../src/ports/clock.ts";
import { encodeBody } from "../../src/wire/messages/body.ts";
import { jobsSubject } from "../../src/wire/messages/subjects.ts";
import type { Awaitable, Lease, Term } from "../../storage/cluster/lease.ts";
import type { Network } from "../runtime/mailbox.ts";

export interface LeadershipOptions {
  readonly clock: Clock;
  readonly lease: Lease;
  /** Milliseconds for which a lease is valid without a renewal. */
  readonly leaseMs: number;
  /** Name of this process, for display. */
  readonly owner: string;
  /** Called with the leader whenever it changes, unless it is this process. */
  readonly onStandby: (leader: Term) => void;
  /** Called once, when this process becomes the leader after `former`. */
  readonly onLeading: (term: number, former: Term | undefined) => void;
  /** Called once, when another process has become the leader. */
  readonly onLost: (error: LeadershipLostError) => void;
  /** Called with errors of the disk or the store; the operation is retried. */
  readonly onError: (error: unknown) => void;
}

/** Polls or renewals of the lease within one lease period. */
const pollsPerLease = 5;
/** Share of a lease after which its owner, without a renewal, stops leading. */
const heldShare = 0.8;

export class Leadership {
  readonly #options: LeadershipOptions;
  #own: Term | undefined;
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  #seen: Term | undefined;
  #unchanged = 0;
  #isOver = false;
  #lost: LeadershipLostError | undefined;
  #cancel: Cancel = () => {};

  constructor(options: LeadershipOptions) {
    this.#options = options;
    this.#cancel = options.clock.after(0, () => void this.#tick());
  }

  /** Whether this process may act as the leader. E2 */
  get isHeld(): boolean {
    const { clock, leaseMs } = this.#options;
    return !this.#isOver && clock.now() - this.#renewedAtMs < heldShare * leaseMs;
  }

  /**
   * Checks that no other process leads by now, so that a later leader will see the preceding write
   * (L3 of lease.ts). @throws LeadershipLostError if another process leads
   */
  confirm(): Awaitable<void> {
    const own = this.#own;
    const isNewest = own !== undefined && this.#options.lease.isNewest(own);
    if (isNewest instanceof Promise) return isNewest.then((answer) => this.#check(answer));
    this.#check(isNewest);
  }

  /**
   * `confirm`, where the answer needs no request; else as far as this process knows by now.
   * @throws LeadershipLostError if another process leads
   */
  assertLeading(): void {
    if (this.#lost !== undefined) throw this.#lost;
    if (!this.#options.lease.isRemote) void this.confirm();
  }

  /** Releases the lease; resolves when it is released, or could not be. Safe to call twice. */
  async close(): Promise<void> {
    this.#cancel();
    const own = this.#own;
    const isHolder = !this.#isOver && own !== undefined;
    this.#isOver = true;
    if (!isHolder) return;
    try {
      await this.#options.lease.renew({ ...own, isReleased: true });
    } catch (error) {
      this.#options.onError(error); // The lease expires by itself.
    }
  }

  async #tick(): Promise<void> {
    const { clock, leaseMs, onError } = this.#options;
    try {
      await (this.#own === undefined ? this.#poll() : this.#renew(this.#own));
    } catch (error) {
      if (!(error instanceof LeadershipLostError)) onError(error);
    }
    if (this.#isOver) return;
    this.#cancel = clock.after(leaseMs / pollsPerLease, () => void this.#tick());
  }

  async #poll(): Promise<void> {
    const { clock, lease, owner, onLeading, onStandby } = this.#options;
    const { newest, term } = await lease.current();
    const isFree = term === undefined ? newest === 0 : term.isReleased;
    const hasMoved = term?.term !== this.#seen?.term || term?.beat !== this.#seen?.beat;
    if (term !== undefined && term.term !== this.#seen?.term && !isFree) onStandby(term);
    this.#unchanged = hasMoved ? 0 : this.#unchanged + 1; // E1
    this.#seen = term;
    if (!isFree && this.#unchanged < pollsPerLease) return;
    const atMs = clock.now();
    const next = newest + 1;
    if (this.#isOver || !(await lease.claim(next, owner))) return;
    this.#own = { term: next, owner, beat: 0, isReleased: false };
    this.#renewedAtMs = atMs;
    onLeading(next, term);
  }

  async #renew(own: Term): Promise<void> {
    const atMs = this.#options.clock.now();
    this.#own = { ...own, beat: own.beat + 1 };
    if (!(await this.#options.lease.renew(this.#own))) throw this.#lose();
    this.#renewedAtMs = atMs;
  }

  #check(isNewest: boolean): void {
    if (!isNewest) throw this.#lose();
  }

  #lose(): LeadershipLostError {
    const { lease, onLost } = this.#options;
    const error = new LeadershipLostError(this.#own?.term ?? 0, lease.leader());
    if (this.#isOver) return error;
    this.#lost = error;
    this.#isOver = true;
    this.#cancel();
    onLost(error);
    return error;
  }
}

// Checks whether a cluster already has a leader. Two leaders on one broker would have separate
// queues, and each request would reach an arbitrary one.

/** Longest wait for the answer of another leader. */
const answerMs = 1000;

/** Whether a leader answers for the cluster. */
export async function isServed({
  transport,
  cluster,
}: Pick<Network, "transport" | "cluster">): Promise<boolean> {
  const { payload, headers } = encodeBody({ most: 1 }, "application/json");
  try {
    const subject = jobsSubject(cluster, "list");
    await transport.request(subject, payload, { headers, deadlineMs: answerMs });
    return true;
  } catch (error) {
    if (error instanceof TrainingError) return false; // No leader, or no permission to send it requests.
    throw error;
  }
}

/** Refuses to start beside another leader. @throws ClusterServedError */
export async function refuseSecondLeader(network: Network): Promise<void> {
  const { cluster, transport } = network;
  if (await isServed(network)) throw new ClusterServedError(cluster, transport.address);
}
