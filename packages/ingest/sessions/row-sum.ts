// An order-independent checksum of rows: their number, and the sum of their CRC-32.

import { crc32 } from "node:zlib";

/** Modulus of the sum, small enough for exact float64 arithmetic. */
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
