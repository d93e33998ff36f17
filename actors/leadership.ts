// Leadership: which of several processes is the root of a cluster, by lease (storage/lease.ts).
//
//   standing by ──the lease stood still, or is free──▶ leading ──a newer term──▶ lost
//        ▲  │                                            │
//        └──┘ its beat has moved                         └── closed: the lease is given back
//
// Invariants
//   E1. Silence is counted in looks that found nothing new, not in time: a process that stood still
//       itself has not looked.
//   E2. Whoever could not renew for most of a lease does not lead, as far as it knows (`isHeld`),
//       before anybody else can: it says nothing and hears nothing as the root.

import type { Cancel, Clock } from "../src/clock.ts";
import { LeadershipLostError } from "../src/root-errors.ts";
import type { LeaseDirectory, Term } from "../storage/lease.ts";

export interface LeadershipOptions {
  readonly clock: Clock;
  readonly lease: LeaseDirectory;
  /** For how long a lease is good that nobody renews. */
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
/** Share of a lease after which one that was not renewed is not held. */
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
    this.#cancel = options.clock.after(0, () => this.#tick());
  }

  /** E2 */
  get isHeld(): boolean {
    const { clock, leaseMs } = this.#options;
    return !this.#isOver && clock.now() - this.#renewedAtMs < heldShare * leaseMs;
  }

  /**
   * Looks whether what was just written is known to whoever may lead by now (L3 of lease.ts).
   * @throws LeadershipLostError where somebody else leads
   */
  confirm(): void {
    const newest = this.#options.lease.newest();
    if (this.#own?.term !== newest) throw this.#lose();
  }

  /** Gives the lease back. Safe to call twice. */
  close(): void {
    this.#cancel();
    if (this.#isOver || this.#own === undefined) return;
    this.#isOver = true;
    try {
      this.#options.lease.renew({ ...this.#own, isReleased: true });
    } catch (error) {
      this.#options.onError(error); // It runs out.
    }
  }

  #tick(): void {
    const { clock, leaseMs, onError } = this.#options;
    try {
      if (this.#own === undefined) this.#look();
      else this.#renew(this.#own);
    } catch (error) {
      if (!(error instanceof LeadershipLostError)) onError(error);
    }
    if (this.#isOver) return;
    this.#cancel = clock.after(leaseMs / looksPerLease, () => this.#tick());
  }

  #look(): void {
    const { clock, lease, owner, onLeading, onStandby } = this.#options;
    const newest = lease.newest();
    const term = newest === 0 ? undefined : lease.read(newest);
    const isFree = newest === 0 || term?.isReleased === true;
    const hasMoved = term?.term !== this.#seen?.term || term?.beat !== this.#seen?.beat;
    if (term !== undefined && term.term !== this.#seen?.term && !isFree) onStandby(term);
    this.#looks = hasMoved ? 0 : this.#looks + 1; // E1
    this.#seen = term;
    if (!isFree && this.#looks < looksPerLease) return;
    const atMs = clock.now();
    const own = { term: newest + 1, owner, beat: 0, isReleased: false };
    if (!lease.claim(own.term, owner)) return;
    this.#own = own;
    this.#renewedAtMs = atMs;
    onLeading(own.term, term);
  }

  #renew(own: Term): void {
    const atMs = this.#options.clock.now();
    this.#own = { ...own, beat: own.beat + 1 };
    if (!this.#options.lease.renew(this.#own)) throw this.#lose();
    this.#renewedAtMs = atMs;
  }

  #lose(): LeadershipLostError {
    const { lease, onLost } = this.#options;
    const newest = lease.newest();
    const error = new LeadershipLostError(
      this.#own?.term ?? 0,
      lease.read(newest)?.owner ?? `term ${newest}`,
    );
    if (this.#isOver) return error;
    this.#isOver = true;
    this.#cancel();
    onLost(error);
    return error;
  }
}
