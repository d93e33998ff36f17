// The lease, which decides which process is the leader. It is a set of files in a directory that
// all candidates can see. With a register (src/wire/jetstream/nats-register.ts), the lease is in
// the register, and the term files are its fence.
//
//   terms/00000001.json   { term: 1, owner: "osiris on a, process 7", beat: 4711, … }
//   terms/00000002.json   the newest term leads
//
// Invariants
//   L1. A term is claimed once: its file is created exclusively. Terms only grow.
//   L2. Only the owner of a term writes its file, again and again, with a growing beat. A candidate
//       that sees the beat unchanged for long enough, by its own clock, may claim the next term.
//       Clocks of two machines are never compared.
//   L3. Either the successor knows what the leader did, or the leader learns of the successor: a
//       leader writes first and then reads the newest term; a successor claims first and then
//       reads.
//   L4. A register may forget. A term claimed in the register belongs to the claimant once its file
//       exists, too.

import { join } from "node:path";
import { z } from "zod";
import type { Disk } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import type { Register } from "../../src/wire/jetstream/nats-register.ts";
import { makeDurableDirectory, readWhole } from "../disk/durable-files.ts";

const termSchema = z.object({
  term: z.int().min(1),
  /** The owner's name, for people. */
  owner: z.string(),
  beat: z.int().min(0),
  /** Whether the owner has released the term. */
  isReleased: z.boolean(),
});

/** A term, as its owner last wrote it. */
export type Term = z.output<typeof termSchema>;

/** Bytes of a term's file: written in one piece each time, so that it is never torn. */
const termBytes = 512;
const ownerCharactersMax = 200;
const fileName = /^(\d{8})\.json$/;

/** The lease. Terms only grow. A method returns a promise only where the lease is in a register. */
export interface Lease {
  /** The newest term whose claim is complete (L4); 0: no term was ever claimed. */
  newest(): number;
  /** Name of a term's owner, present or former, for people. */
  ownerOf(term: number): string | undefined;
  /** The newest term, as its owner last wrote it; undefined: none, or it cannot be read. */
  current(): Awaitable<Term | undefined>;
  /** Claims a term, durably. False: another process has it. */
  claim(term: number, owner: string): Awaitable<boolean>;
  /** Writes a term that the caller owns. False: there is a newer one. */
  renew(term: Term): Awaitable<boolean>;
}

type Awaitable<Value> = Value | Promise<Value>;

export class LeaseDirectory implements Lease {
  readonly #disk: Disk;
  readonly #terms: string;

  /** Makes the directory where it is missing. Throws the disk's errors. */
  constructor(disk: Disk, directory: string) {
    this.#disk = disk;
    this.#terms = join(directory, "terms");
    makeDurableDirectory(disk, this.#terms);
  }

  /** The newest term's number; 0: there is none yet. */
  newest(): number {
    const numbers = this.#disk.list(this.#terms).map((name) => Number(fileName.exec(name)?.[1]));
    return Math.max(0, ...numbers.filter((number) => number > 0));
  }

  /** A term, as its owner last wrote it; undefined where it cannot be read. */
  read(term: number): Term | undefined {
    try {
      return decode(readWhole(this.#disk, this.#pathOf(term)));
    } catch (error) {
      if (diskCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  current(): Term | undefined {
    const newest = this.newest();
    return newest === 0 ? undefined : this.read(newest);
  }

  ownerOf(term: number): string | undefined {
    return this.read(term)?.owner;
  }

  /** Claims `term`, durably. False: another process has it. */
  claim(term: number, owner: string): boolean {
    try {
      const file = this.#disk.open(this.#pathOf(term), "exclusive"); // L1
      try {
        file.write(encode({ term, owner, beat: 0, isReleased: false }), 0);
        file.sync();
      } finally {
        file.close();
      }
      this.#disk.syncDirectory(this.#terms);
    } catch (error) {
      if (diskCode(error) === "EEXIST") return false;
      throw error;
    }
    for (let old = term - 2; old > 0 && this.#disk.exists(this.#pathOf(old)); old--) {
      this.#disk.remove(this.#pathOf(old));
    }
    return true;
  }

  /** Moves the beat of a term that the caller owns. False: there is a newer term. */
  renew(term: Term): boolean {
    const file = this.#disk.open(this.#pathOf(term.term), "update");
    try {
      file.write(encode(term), 0);
    } finally {
      file.close();
    }
    return this.newest() === term.term; // L3
  }

  #pathOf(term: number): string {
    return join(this.#terms, `${String(term).padStart(8, "0")}.json`);
  }
}

/** The lease in a register. Only the register's beat changes; each term's file is written once. */
export class RegisteredLease implements Lease {
  readonly #register: Register;
  readonly #fence: LeaseDirectory;
  #revision = 0;

  constructor(register: Register, fence: LeaseDirectory) {
    this.#register = register;
    this.#fence = fence;
  }

  newest(): number {
    return this.#fence.newest();
  }

  ownerOf(term: number): string | undefined {
    return this.#fence.ownerOf(term);
  }

  async current(): Promise<Term | undefined> {
    const found = await this.#register.read();
    this.#revision = found?.revision ?? 0;
    return found === undefined ? undefined : decode(found.value);
  }

  /** Call after `current`: it succeeds only if the register is still as `current` saw it. */
  async claim(term: number, owner: string): Promise<boolean> {
    const isSet = await this.#set({ term, owner, beat: 0, isReleased: false });
    return isSet && this.#fence.claim(term, owner); // L4
  }

  async renew(term: Term): Promise<boolean> {
    if (this.newest() !== term.term) return false; // L3
    if (await this.#set(term)) return true;
    const found = await this.current();
    if (found !== undefined && (found.term !== term.term || found.owner !== term.owner)) {
      return false;
    }
    // The register forgot the term, or an answer was lost; no other process has claimed it.
    return (await this.#set(term)) && this.newest() === term.term;
  }

  async #set(term: Term): Promise<boolean> {
    const revision = await this.#register.compareAndSet(encode(term), this.#revision);
    this.#revision = revision ?? this.#revision;
    return revision !== undefined;
  }
}

function decode(bytes: Uint8Array): Term | undefined {
  try {
    return termSchema.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function encode({ term, owner, beat, isReleased }: Term): Uint8Array {
  const name = owner.slice(0, ownerCharactersMax);
  const text = JSON.stringify({ term, owner: name, beat, isReleased });
  return new TextEncoder().encode(`${text.padEnd(termBytes - 1)}\n`);
}
