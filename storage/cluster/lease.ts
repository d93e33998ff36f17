// The lease, which decides which process is the leader: the contract, and the lease in files of a
// directory that all candidates can see. stored-lease.ts has the lease in an object store.
//
//   terms/00000001.json   { term: 1, owner: "osiris on a, process 7", beat: 4711, … }
//   terms/00000002.json   the newest term leads
//
// Invariants
//   L1. A term is claimed once: its file is created exclusively. Terms only grow.
//   L2. Only the owner of a term writes its file, again and again, with a growing beat. A candidate
//       that sees the beat unchanged for long enough, by its own clock, may claim the next term.
//       Clocks of two machines are never compared.
//   L3. Either the successor reads what the leader wrote, or the leader detects the successor: a
//       leader writes first and then reads the newest term; a successor claims first and then
//       reads.

import { join } from "node:path";
import { z } from "zod";
import type { Disk } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { makeDurableDirectory, readWhole } from "../disk/durable-files.ts";

export const termSchema = z.object({
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
export const ownerCharactersMax = 200;
const fileName = /^(\d{8})\.json$/;

/** The newest term. */
export interface Claimed {
  /** Its number; 0: no term was ever claimed. */
  readonly newest: number;
  /** As its owner last wrote it; undefined: none, or it cannot be read. */
  readonly term: Term | undefined;
}

/** The lease. Terms only grow. A method returns a promise only where the lease is not in files. */
export interface Lease {
  /** Whether an answer needs requests to a store, so that methods return promises. */
  readonly isRemote: boolean;
  current(): Awaitable<Claimed>;
  /** Claims a term, durably. False: another process has it. */
  claim(term: number, owner: string): Awaitable<boolean>;
  /** Writes a term that the caller owns. False: there is a newer one. */
  renew(term: Term): Awaitable<boolean>;
  /** Whether there is no newer term than this one, which the caller owns. L3 */
  isNewest(term: Term): Awaitable<boolean>;
  /** Name of the owner of the newest term that was seen, for people. */
  leader(): string;
}

export type Awaitable<Value> = Value | Promise<Value>;

export class LeaseDirectory implements Lease {
  readonly isRemote = false;
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
      return decodeJson(termSchema, readWhole(this.#disk, this.#pathOf(term)));
    } catch (error) {
      if (diskCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  current(): Claimed {
    const newest = this.newest();
    return { newest, term: newest === 0 ? undefined : this.read(newest) };
  }

  isNewest({ term }: Term): boolean {
    return this.newest() === term;
  }

  leader(): string {
    const newest = this.newest();
    return this.read(newest)?.owner ?? `term ${newest}`;
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
    if (!this.isNewest(term)) return false; // The second successor has removed the file.
    const file = this.#disk.open(this.#pathOf(term.term), "update");
    try {
      file.write(encode(term), 0);
    } finally {
      file.close();
    }
    return this.isNewest(term); // L3
  }

  #pathOf(term: number): string {
    return join(this.#terms, `${String(term).padStart(8, "0")}.json`);
  }
}

/** An object as JSON. */
export function encodeJson(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/** An object from JSON; undefined where the bytes are missing or of another form. */
export function decodeJson<Schema extends z.ZodType>(
  schema: Schema,
  bytes: Uint8Array | undefined,
): z.output<Schema> | undefined {
  if (bytes === undefined) return undefined;
  try {
    return schema.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data;
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
