// Leadership: which of several processes is the leader of a cluster, by lease
// (storage/cluster/lease.ts).
//
//   standing by ──the lease stood still, or is free──▶ leading ──a newer term──▶ lost
//        ▲  │                                            │
//        └──┘ its beat has moved                         └── closed: the lease is given back
//
// Invariants
//   E1. Silence is counted in looks that found nothing new, not in time: a process that stood still
//       itself has not looked.
//   E2. Whoever could not renew for most of a lease does not lead, as far as it knows (`isHeld`),
//       before anybody else can: it says nothing and hears nothing as the leader.

import { LeadershipLostError } from "../../src/errors/errors.ts";
import type { Cancel, Clock } from "../../src/ports/clock.ts";
import type { Lease, Term } from "../../storage/cluster/lease.ts";

export interface LeadershipOptions {
  readonly clock: Clock;
  readonly lease: Lease;
  /** Milliseconds that a lease holds without a renewal. */
  readonly leaseMs: number;
  /** Who this is, for people. */
  readonly owner: string;
  /** Told who leads, whenever that changes, as long as it is somebody else. */
  readonly onStandby: (leader: Term) => void;
  /** Told once: this process leads, after `former`. */
  readonly onLeading: (term: number, former: Term | undefined) => void;
  /** Told once, after it led: somebody else does. */
  readonly onLost: (error: LeadershipLostError) => void;
  /** Told what the disk refused; it is tried again. */
  readonly onError: (error: unknown) => void;
}

/** Looks at the lease, or renewals of it, within one lease. */
const looksPerLease = 5;
/** Share of a lease after which its owner, without a renewal, stops leading. */
const heldShare = 0.8;

export class Leadership {
  readonly #options: LeadershipOptions;
  #own: Term | undefined;
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  #seen: Term | undefined;
  #looks = 0;
  #isOver = false;
  #cancel: Cancel = () => {};

  constructor(options: LeadershipOptions) {
    this.#options = options;
    this.#cancel = options.clock.after(0, () => void this.#tick());
  }

  /** E2 */
  get isHeld(): boolean {
    const { clock, leaseMs } = this.#options;
    return !this.#isOver && clock.now() - this.#renewedAtMs < heldShare * leaseMs;
  }

  /**
   * Checks that a process that may lead by now knows what was just written (L3 of lease.ts).
   * @throws LeadershipLostError where somebody else leads
   */
  confirm(): void {
    const newest = this.#options.lease.newest();
    if (this.#own?.term !== newest) throw this.#lose();
  }

  /** Gives the lease back; resolves when it has, or could not. Safe to call twice. */
  async close(): Promise<void> {
    this.#cancel();
    const own = this.#own;
    const isHolder = !this.#isOver && own !== undefined;
    this.#isOver = true;
    if (!isHolder) return;
    try {
      await this.#options.lease.renew({ ...own, isReleased: true });
    } catch (error) {
      this.#options.onError(error); // It runs out.
    }
  }

  async #tick(): Promise<void> {
    const { clock, leaseMs, onError } = this.#options;
    try {
      await (this.#own === undefined ? this.#look() : this.#renew(this.#own));
    } catch (error) {
      if (!(error instanceof LeadershipLostError)) onError(error);
    }
    if (this.#isOver) return;
    this.#cancel = clock.after(leaseMs / looksPerLease, () => void this.#tick());
  }

  async #look(): Promise<void> {
    const { clock, lease, owner, onLeading, onStandby } = this.#options;
    const newest = lease.newest();
    const term = await lease.look();
    const isFree = term === undefined ? newest === 0 : term.isReleased;
    const hasMoved = term?.term !== this.#seen?.term || term?.beat !== this.#seen?.beat;
    if (term !== undefined && term.term !== this.#seen?.term && !isFree) onStandby(term);
    this.#looks = hasMoved ? 0 : this.#looks + 1; // E1
    this.#seen = term;
    if (!isFree && this.#looks < looksPerLease) return;
    const atMs = clock.now();
    const next = Math.max(newest, term?.term ?? 0) + 1;
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

  #lose(): LeadershipLostError {
    const { lease, onLost } = this.#options;
    const newest = lease.newest();
    const error = new LeadershipLostError(
      this.#own?.term ?? 0,
      lease.ownerOf(newest) ?? `term ${newest}`,
    );
    if (this.#isOver) return error;
    this.#isOver = true;
    this.#cancel();
    onLost(error);
    return error;
  }
}
