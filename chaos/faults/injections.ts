// What struck: a directory in which every fault of a schedule leaves a file when it strikes, and
// another one when it is over. Files outlive whoever wrote them: a thread that ends itself, a
// process that is killed.
//
// Invariants
//   S1. A fault strikes once: its file is created exclusively, by whichever thread or process of
//       whichever generation comes to its moment first.
//   S2. The file is there before anything happens: what struck never goes uncounted.
//
//   strike-3.json    fault 3 struck: when, in which step and generation
//   healed-3.json    it is over: how often it hit
//   gate-4           device 0 stands at the moment of fault 4, until whoever strikes it …
//   open-4           … lets it go on

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A fault that struck. */
export interface Strike {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Steps done by whoever saw the moment come; -1: nobody knows. */
  readonly step: number;
  readonly generation: number;
}

/** How a fault ended. */
export interface Healing {
  readonly atMs: number;
  /** What it did meanwhile: frames, disk operations, steps. */
  readonly hits: number;
}

type Mark = "strike" | "healed" | "gate" | "open";

/** The strikes of one run, seen from any thread or process of this machine. */
export class Strikes {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** Whether the caller is the one to strike; false where fault `fault` has struck. S1 */
  claim(fault: number, at: { readonly step: number; readonly generation: number }): boolean {
    return this.#create("strike", fault, { atMs: Date.now(), ...at });
  }

  /** The fault is over. Nothing happens where that is known. */
  heal(fault: number, hits: number): void {
    this.#create("healed", fault, { atMs: Date.now(), hits });
  }

  struck(fault: number): Strike | undefined {
    return this.#read<Strike>("strike", fault);
  }

  healed(fault: number): Healing | undefined {
    return this.#read<Healing>("healed", fault);
  }

  /** Whether the caller is the first at the gate of a fault that is struck from outside. */
  arrive(fault: number, at: { readonly step: number; readonly generation: number }): boolean {
    return this.#create("gate", fault, { atMs: Date.now(), ...at });
  }

  /** Who stands at the gate, or stood there. */
  arrived(fault: number): Strike | undefined {
    return this.#read<Strike>("gate", fault);
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
