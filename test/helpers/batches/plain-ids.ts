// Dynamic ids in a plain Map: the tests' reference for the row of each id.

import type { DynamicSpec } from "../../../src/embedding/tables/dynamic-options.ts";
import { type Key, philox } from "../../../src/ports/random.ts";
import { mix64 } from "./wide-ids.ts";

interface Seen {
  count: number;
  last: number;
}

/** The ids of a whole table. The block of an id is given by the table's mix64. */
export class PlainIds {
  readonly rows = new Map<bigint, Seen & { readonly row: number }>();
  readonly waiting = new Map<bigint, Seen>();
  readonly counts = { admitted: 0, evicted: 0, dropped: 0 };
  readonly #table: { readonly rows: number; readonly rowBlocks: number };
  readonly #spec: DynamicSpec;
  readonly #draw: { readonly key: Key; readonly purpose: number };
  #places: number[] = [];

  constructor(
    table: { readonly rows: number; readonly rowBlocks: number },
    spec: DynamicSpec,
    draw: { readonly key: Key; readonly purpose: number },
  ) {
    this.#table = table;
    this.#spec = spec;
    this.#draw = draw;
  }

  /** The lookups of a step: the rows of its ids, in their order; undefined: dropped. */
  look(step: number, ids: readonly bigint[]): (number | undefined)[] {
    this.#places = [];
    return ids.map((id) => this.#lookOne(step, id));
  }

  #lookOne(step: number, id: bigint): number | undefined {
    const block = Number(mix64(id) % BigInt(this.#table.rowBlocks));
    const place = this.#places[block] ?? 0;
    this.#places[block] = place + 1;
    const known = this.rows.get(id);
    if (known !== undefined) {
      known.count++;
      known.last = step;
      return known.row;
    }
    const before = this.waiting.get(id)?.count ?? 0;
    const row = this.#freeRow(block);
    if (row === undefined || !this.#isAdmitted(step, block, place, before + 1)) {
      if (this.#spec.admission.kind === "frequency") {
        this.waiting.set(id, { count: before + 1, last: step });
      }
      this.counts.dropped++;
      return undefined;
    }
    this.waiting.delete(id);
    this.rows.set(id, { row, count: before + 1, last: step });
    this.counts.admitted++;
    return row;
  }

  #isAdmitted(step: number, block: number, place: number, count: number): boolean {
    const { admission } = this.#spec;
    if (admission.kind === "all") return true;
    if (admission.kind === "frequency") return count >= admission.count;
    const words = new Uint32Array(4);
    philox(words, this.#draw.key, [place, block, step, this.#draw.purpose]);
    return (words[0] ?? 0) / 2 ** 32 < admission.probability;
  }

  #blockRows(block: number): { readonly first: number; readonly end: number } {
    const { rows, rowBlocks } = this.#table;
    const each = Math.ceil(rows / rowBlocks);
    return { first: Math.min(rows, block * each), end: Math.min(rows, (block + 1) * each) };
  }

  #freeRow(block: number): number | undefined {
    const taken = new Set([...this.rows.values()].map(({ row }) => row));
    const { first, end } = this.#blockRows(block);
    for (let row = first; row < end; row++) if (!taken.has(row)) return row;
    return undefined;
  }

  /** The eviction step before `step`; returns the freed rows, ascending. */
  decide(step: number): number[] {
    const gone: number[] = [];
    for (let block = 0; block < this.#table.rowBlocks; block++) {
      const { first, end } = this.#blockRows(block);
      const own = [...this.rows].filter(([, { row }]) => row >= first && row < end);
      for (const [id, { row }] of this.#leaving(own, end - first, step)) {
        this.rows.delete(id);
        gone.push(row);
      }
    }
    for (const known of this.rows.values()) known.count = Math.floor(known.count / 2);
    for (const [id, { last }] of this.waiting) {
      if (last < step - this.#spec.everySteps) this.waiting.delete(id);
    }
    this.counts.evicted += gone.length;
    return gone.sort((a, b) => a - b);
  }

  #leaving(own: [bigint, Seen & { row: number }][], budget: number, step: number) {
    const { eviction } = this.#spec;
    if (eviction.kind === "age") return own.filter(([, { last }]) => last < step - eviction.steps);
    const used = budget - Math.ceil(eviction.free * budget);
    const order = own.sort(([a, x], [b, y]) => {
      return x.count - y.count || x.last - y.last || (a < b ? -1 : 1);
    });
    return order.slice(0, Math.max(0, own.length - used));
  }
}
