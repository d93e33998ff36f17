// The mark of a leader whose journal contains every event that it published. Events are written
// before they are published, but not synced: they survive the process, not the machine, and the
// write may fail. If the next leader finds a mark of its own boot, it continues the event numbers;
// without a mark, the former leader may have published numbers that the journal lacks.
//
//   kept/00000007    the boot id under which the leader of term 7 journals all that it publishes
//
// Invariants
//   M1. Only the newest mark counts. A leader removes older marks before it publishes an event.
//   M2. A leader removes its mark before it publishes an event that its journal does not have.

import { join } from "node:path";
import type { Disk } from "../../src/ports/disk.ts";
import { readWhole } from "../disk/durable-files.ts";

/** The mark of a leader; see the head of this file. */
export interface Mark {
  /** Whether the former leader's journal contains every event that it published. */
  isFormerWhole(): boolean;
  /** Makes this leader's mark the only one. M1 */
  set(): void;
  /** Removes this leader's mark. M2 */
  drop(): void;
}

/**
 * Stands for a mark where the journal lies in an object store. Its leader publishes an event only
 * after the store has it, so the journal is always complete, without a mark.
 */
export const alwaysWhole: Mark = { isFormerWhole: () => true, set() {}, drop() {} };

export class KeptMark implements Mark {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #name: string;

  constructor(disk: Disk, directory: string, term: number) {
    this.#disk = disk;
    this.#folder = join(directory, "kept");
    this.#name = String(term).padStart(8, "0");
  }

  isFormerWhole(): boolean {
    const { boot } = this.#disk;
    const newest = this.#marks()
      .filter((name) => name < this.#name)
      .at(-1);
    if (newest === undefined || boot === undefined) return false;
    return new TextDecoder().decode(readWhole(this.#disk, join(this.#folder, newest))) === boot;
  }

  /** M1 */
  set(): void {
    const { boot } = this.#disk;
    for (const name of this.#marks()) {
      if (name <= this.#name) this.#disk.remove(join(this.#folder, name));
    }
    if (boot === undefined) return;
    this.#disk.makeDirectory(this.#folder);
    const file = this.#disk.open(join(this.#folder, this.#name), "write");
    try {
      file.write(new TextEncoder().encode(boot), 0);
    } finally {
      file.close();
    }
  }

  /** M2 */
  drop(): void {
    this.#disk.remove(join(this.#folder, this.#name));
  }

  #marks(): string[] {
    return this.#disk.list(this.#folder).filter((name) => /^\d{8}$/.test(name));
  }
}
