// The mark of a leader whose journal has every event that was told. Events are written before they
// are told, but not synced: they survive the process, not the machine, and a disk may refuse them.
// The next leader that finds the mark of its own boot numbers events on; without one, numbers may
// have been told that the journal lacks.
//
//   kept/00000007    the boot under which the leader of term 7 keeps all that it tells
//
// Invariants
//   M1. Only the newest mark counts. A leader removes older marks before it tells an event.
//   M2. A leader removes its mark before it tells an event that its journal does not have.

import { join } from "node:path";
import type { Disk } from "../../src/ports/disk.ts";
import { readWhole } from "../disk/durable-files.ts";

export class KeptMark {
  readonly #disk: Disk;
  readonly #folder: string;
  readonly #name: string;

  constructor(disk: Disk, directory: string, term: number) {
    this.#disk = disk;
    this.#folder = join(directory, "kept");
    this.#name = String(term).padStart(8, "0");
  }

  /** Whether the former leader told nothing that its journal lacks. */
  isFormerWhole(): boolean {
    const { boot } = this.#disk;
    const newest = this.#marks()
      .filter((name) => name < this.#name)
      .at(-1);
    if (newest === undefined || boot === undefined) return false;
    return new TextDecoder().decode(readWhole(this.#disk, join(this.#folder, newest))) === boot;
  }

  /** Makes this leader's mark the only one. M1 */
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
