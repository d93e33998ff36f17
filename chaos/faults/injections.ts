// What was injected: a directory in which every fault of a schedule leaves a file when it
// is injected, and another one when it is over. Files outlive their writer: a thread that
// ends itself, a process that is killed.
//
// Invariants
//   S1. A fault is injected once: its file is created exclusively, by whichever thread or process
//       of whichever generation comes to its moment first.
//   S2. The file is there before anything happens: what was injected never goes uncounted.
//
//   injection-3.json    fault 3 was injected: when, in which step and generation
//   healed-3.json    it is over: how often it hit
//   gate-4           device 0 stands at the moment of fault 4, until the injector has injected it …
//   open-4           … lets it go on

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A fault that was injected. */
export interface Injection {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Steps done by the thread that reached the moment; -1: unknown. */
  readonly step: number;
  readonly generation: number;
}

/** How a fault ended. */
export interface Healing {
  readonly atMs: number;
  /** What it did meanwhile: frames, disk operations, steps. */
  readonly hits: number;
}

type Mark = "injected" | "healed" | "gate" | "open";

/** The injections of one run, seen from any thread or process of this machine. */
export class Injections {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** Whether the caller is the one to inject it; false where fault `fault` was injected. S1 */
  claim(fault: number, at: { readonly step: number; readonly generation: number }): boolean {
    return this.#create("injected", fault, { atMs: Date.now(), ...at });
  }

  /** The fault is over. Nothing happens where that is known. */
  heal(fault: number, hits: number): void {
    this.#create("healed", fault, { atMs: Date.now(), hits });
  }

  injected(fault: number): Injection | undefined {
    return this.#read<Injection>("injected", fault);
  }

  healed(fault: number): Healing | undefined {
    return this.#read<Healing>("healed", fault);
  }

  /** Whether the caller is the first at the gate of a fault that is injected from outside. */
  arrive(fault: number, at: { readonly step: number; readonly generation: number }): boolean {
    return this.#create("gate", fault, { atMs: Date.now(), ...at });
  }

  /** Who stands at the gate, or stood there. */
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
    // Created and filled are two moments: what is still empty is not there yet.
    const text = existsSync(path) ? readFileSync(path, "utf8") : "";
    return text === "" ? undefined : (JSON.parse(text) as Value);
  }

  #path(mark: Mark, fault: number): string {
    return join(this.directory, `${mark}-${fault}.json`);
  }
}
