// Counts rows and adds up their checksums: rows that come out in another order have the same sum.

import { crc32 } from "node:zlib";

/** Sums stay below this. */
const sumsEnd = 2 ** 48;

export interface RowSums {
  readonly rows: number;
  readonly sum: number;
}

export class RowSum {
  #rows: number;
  #sum: number;

  constructor({ rows, sum }: RowSums = { rows: 0, sum: 0 }) {
    this.#rows = rows;
    this.#sum = sum;
  }

  add(row: Uint8Array): void {
    this.#rows++;
    this.#sum = (this.#sum + crc32(row)) % sumsEnd;
  }

  get value(): RowSums {
    return { rows: this.#rows, sum: this.#sum };
  }
}
