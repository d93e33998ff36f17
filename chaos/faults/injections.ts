// The record of injected faults: a directory in which each fault of a schedule leaves a file when
// it is injected, and another when it is over. Files survive their writer, which may be a thread
// that exits or a process that is killed.
//
// Invariants
//   S1. A fault is injected once: its file is created exclusively, by the first thread or process
//       of any generation that reaches its moment.
//   S2. The file is created before the fault takes effect: no injection goes unrecorded.
//
//   injected-3.json  fault 3 was injected: time, step and generation
//   healed-3.json    fault 3 is over: number of affected operations
//   gate-4.json      device 0 waits at the moment of fault 4 …
//   open-4.json      … until the injector has injected fault 4

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The record of an injected fault. */
export interface Injection {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Completed steps of the thread that reached the moment; -1: unknown. */
  readonly step: number;
  readonly generation: number;
}

/** The record of a fault's end. */
export interface Healing {
  readonly atMs: number;
  /** Number of affected frames, disk operations or steps. */
  readonly hits: number;
}

type Mark = "injected" | "healed" | "gate" | "open";

/** The injections of one run, shared by all threads and processes of this machine. */
export class Injections {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /**
   * Claims a fault. Returns true if the caller must inject it, false if it was injected before. S1
   */
  claim(fault: number, at: { readonly step: number; readonly generation: number }): boolean {
    return this.#create("injected", fault, { atMs: Date.now(), ...at });
  }

  /** Records the end of a fault, once. */
  heal(fault: number, hits: number): void {
    this.#create("healed", fault, { atMs: Date.now(), hits });
  }

  injected(fault: number): Injection | undefined {
    return this.#read<Injection>("injected", fault);
  }

  healed(fault: number): Healing | undefined {
    return this.#read<Healing>("healed", fault);
  }

  /** Whether the caller is the first thread at the gate of a fault injected from outside. */
  arrive(fault: number, at: { readonly step: number; readonly generation: number }): boolean {
    return this.#create("gate", fault, { atMs: Date.now(), ...at });
  }

  /** The step and generation at which a thread reached the gate. */
  arrived(fault: number): Injection | undefined {
    return this.#read<Injection>("gate", fault);
  }

  open(fault: number): void {
    this.#create("open", fault, {});
  }

  isOpen(fault: number): boolean {
    return existsSync(this.#path("open", fault));
  }

  #create(mark: Mark, fault: number, value: object): boolean {
    try {
      writeFileSync(this.#path(mark, fault), JSON.stringify(value), { flag: "wx" });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
  }

  #read<Value>(mark: Mark, fault: number): Value | undefined {
    const path = this.#path(mark, fault);
    // A file is created before it is filled: an empty file counts as missing.
    const text = existsSync(path) ? readFileSync(path, "utf8") : "";
    return text === "" ? undefined : (JSON.parse(text) as Value);
  }

  #path(mark: Mark, fault: number): string {
    return join(this.directory, `${mark}-${fault}.json`);
  }
}
