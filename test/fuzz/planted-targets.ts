// Readers with one planted fault each, which a test expects the fuzzer to find.

import { InputUnusableError } from "../../src/errors/errors.ts";
import type { Target } from "./target.ts";

function planted(name: string, fault: (first: number) => void): Target {
  return {
    name,
    seeds: () => [Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8)],
    read([first = 0]) {
      if (first === 0) fault(first);
      if (first !== 1) throw new InputUnusableError("planted", "it does not begin with 1");
    },
  };
}

export const targets: readonly Target[] = [
  planted("a claim", (first) => new Array(first - 1)),
  planted("a hang", () => {
    for (;;);
  }),
  planted("an end", () => process.exit(3)),
  planted("memory", () => {
    for (const held: Buffer[] = []; ; ) held.push(Buffer.alloc(2 ** 27, 1));
  }),
];
