// The lease in an object store: in a bucket, or in JetStream (src/wire/jetstream/nats-objects.ts).
// A claim is an object that `create` writes at the next place; the owner of the newest claim leads.
//
//   terms/00000001.json   { term: 1, owner: "osiris on a, process 7", claimant: "…" }
//   beats/00000001.json   { beat: 4711, isReleased: false }, again and again
//
// Invariants, besides those of lease.ts
//   L4. Claims are contiguous and never removed, so the newest one is found without a listing.
//   L5. JetStream may forget what it acknowledged (law 6): the latest part, or all. An owner that
//       finds its claim forgotten claims the next free place for the same term. It leads on only if
//       it gets that place, with no claim before it but the one that it succeeded.

import { z } from "zod";
import { StoreFailedError } from "../../src/errors/errors.ts";
import type { ObjectStore } from "../../src/ports/object-store.ts";
import {
  type Claimed,
  decodeJson,
  encodeJson,
  type Lease,
  ownerCharactersMax,
  type Term,
  termSchema,
} from "./lease.ts";

const claimSchema = termSchema
  .pick({ term: true, owner: true })
  /** Distinguishes processes, so that no two claims have the same bytes. */
  .extend({ claimant: z.string() });
const beatSchema = termSchema.pick({ beat: true, isReleased: true });

type Claim = z.output<typeof claimSchema>;

export interface StoredLeaseOptions {
  readonly objects: ObjectStore;
  /** A name that no other process ever has. */
  readonly claimant: string;
  /** Called when the store forgot this process's claim, and has it again. L5 */
  readonly onForgotten: () => void;
}

/** A claim and its place; place 0: there is none. */
interface Placed {
  readonly place: number;
  readonly claim: Claim | undefined;
}

const none: Placed = { place: 0, claim: undefined };

export class StoredLease implements Lease {
  readonly isRemote = true;
  readonly #options: StoredLeaseOptions;
  /** The newest claim that was seen. */
  #seen = none;
  /** The claim of this process, and the one that it succeeded. */
  #own: Placed | undefined;
  #former = none;
  /** Highest term ever seen: terms grow although the store forgets. */
  #highest = 0;
  /** Calls run one after the other, so that a forgotten claim is claimed again only once. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: StoredLeaseOptions) {
    this.#options = options;
  }

  current(): Promise<Claimed> {
    return this.#inTurn(async () => {
      const { place, claim } = await this.#look();
      if (claim === undefined) return { newest: this.#highest, term: undefined };
      const { term, owner } = claim;
      const bytes = await this.#options.objects.get(beatKey(place));
      const { beat, isReleased } = decodeJson(beatSchema, bytes) ?? { beat: 0, isReleased: false };
      return { newest: this.#highest, term: { term, owner, beat, isReleased } };
    });
  }

  /** Call after `current`: it claims the place after the newest claim that `current` saw. */
  claim(term: number, owner: string): Promise<boolean> {
    const { claimant } = this.#options;
    return this.#inTurn(() => {
      this.#former = this.#seen;
      return this.#take({ term, owner: owner.slice(0, ownerCharactersMax), claimant });
    });
  }

  async renew(term: Term): Promise<boolean> {
    const { beat, isReleased } = term;
    if (this.#own === undefined) return false;
    await this.#options.objects.put(beatKey(this.#own.place), encodeJson({ beat, isReleased }));
    return this.isNewest(term);
  }

  isNewest(_: Term): Promise<boolean> {
    return this.#inTurn(async () => {
      const own = this.#own?.claim;
      const { place, claim } = await this.#look();
      if (own === undefined) return false;
      if (isSame(claim, own)) return true;
      const isFormer = place === this.#former.place && isSame(claim, this.#former.claim);
      if ((place > 0 && !isFormer) || !(await this.#take(own))) return false;
      this.#options.onForgotten(); // L5
      return true;
    });
  }

  leader(): string {
    return this.#seen.claim?.owner ?? "another process";
  }

  async #take(claim: Claim): Promise<boolean> {
    const place = this.#seen.place + 1;
    if (!(await this.#options.objects.create(claimKey(place), encodeJson(claim)))) return false; // L1
    this.#own = { place, claim };
    this.#see(this.#own);
    return true;
  }

  /** Finds the newest claim, from the newest one that was seen upward. L4 */
  async #look(): Promise<Placed> {
    const { place } = this.#seen;
    const [seen, next] = await Promise.all([this.#read(place), this.#read(place + 1)]);
    const isNewest = next === undefined && (seen !== undefined || place === 0);
    if (isNewest) return this.#see({ place, claim: seen });
    const from = seen === undefined ? 0 : place; // L5: looks from the first place on.
    const last = await newestFrom(from, async (at) => (await this.#read(at)) !== undefined);
    return this.#see({ place: last, claim: await this.#read(last) });
  }

  #see(newest: Placed): Placed {
    this.#seen = newest;
    this.#highest = Math.max(this.#highest, newest.claim?.term ?? 0);
    return newest;
  }

  async #read(place: number): Promise<Claim | undefined> {
    if (place === 0) return undefined;
    const { objects } = this.#options;
    const bytes = await objects.get(claimKey(place));
    const claim = decodeJson(claimSchema, bytes);
    if (bytes === undefined || claim !== undefined) return claim;
    const cause = new Error(
      "it is no claim of a lease: another program wrote it, or it is damaged",
    );
    throw new StoreFailedError("use", `${objects.address}/${claimKey(place)}`, { cause });
  }

  #inTurn<Result>(body: () => Promise<Result>): Promise<Result> {
    const result = this.#turn.then(body);
    this.#turn = result.catch(() => {}); // The caller gets the error.
    return result;
  }
}

function isSame(a: Claim | undefined, b: Claim | undefined): boolean {
  return a?.claimant === b?.claimant && a?.term === b?.term;
}

/**
 * The last of the contiguous numbers from `from` on, which exists or is 0: doubles the step while
 * numbers exist, then halves the interval.
 */
export async function newestFrom(
  from: number,
  exists: (number: number) => Promise<boolean>,
): Promise<number> {
  let step = 1;
  while (await exists(from + step)) step *= 2;
  let [existing, missing] = [from + Math.floor(step / 2), from + step];
  while (missing - existing > 1) {
    const middle = Math.floor((existing + missing) / 2);
    if (await exists(middle)) existing = middle;
    else missing = middle;
  }
  return existing;
}

function claimKey(place: number): string {
  return `terms/${String(place).padStart(8, "0")}.json`;
}

function beatKey(place: number): string {
  return `beats/${String(place).padStart(8, "0")}.json`;
}
