// Cells of a single device, such as a saved model that predicts. No other participant stores, so a
// wait ends at once or never.

import { strict as assert } from "node:assert";
import type { Cells } from "./cells.ts";

/** Cells of a single participant. A wait that could never end is a bug, and throws at once. */
export function createSoloCells(cells: number): Cells {
  const words = new Int32Array(cells);
  return {
    load: (cell) => words[cell] ?? 0,
    store(cell, value) {
      words[cell] = value;
    },
    async waitUntil(wait, isTrue) {
      assert(isTrue(), `a device that is alone waits for ${wait()}`);
    },
  };
}
