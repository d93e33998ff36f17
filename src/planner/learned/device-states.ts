// The cache of a search: what is on a device, as the path of the tables that were placed on it, one
// behind the other. A state is made once, however often a search comes by; it has the sum of its
// tables' vectors, so that one more table costs one sum and the head of the network.
//
// Invariants
//   S1. A state is never changed but for the states behind it.
//   S2. There are at most `statesMax` of them; then the tree begins anew, and older states stay
//       usable for those who hold them.

import { type CostNetworks, computeCost, type DeviceLoad, tableVector } from "./cost-networks.ts";
import type { CostTable } from "./cost-table.ts";

/** Some hundred bytes each. */
const statesMax = 200_000;

/** A table of one width, with what a search needs of it. */
export interface KnownTable {
  /** Equal for equal tables of one width. */
  readonly key: number;
  readonly vector: Float64Array;
  readonly bytes: number;
  readonly columns: number;
  readonly isHalvable: boolean;
  /** Milliseconds of its lookup and update alone on a device. */
  readonly cost: number;
}

/** What is on a device. */
export interface DeviceState extends DeviceLoad {
  readonly sum: Float64Array;
  readonly bytes: number;
  /** With one more table, by its key. */
  readonly next: Map<number, DeviceState>;
}

/** How much a cache saved. */
export interface CacheCounts {
  /** States that were asked for, and those of them that were computed. */
  readonly asked: number;
  readonly computed: number;
}

export class DeviceStates {
  readonly #networks: CostNetworks;
  readonly #known = new Map<string, KnownTable>();
  #root: DeviceState;
  #states = 0;
  #asked = 0;
  #computed = 0;

  constructor(networks: CostNetworks) {
    this.#networks = networks;
    this.#root = emptyState(networks);
  }

  get counts(): CacheCounts {
    return { asked: this.#asked, computed: this.#computed };
  }

  /** A device without tables. */
  get empty(): DeviceState {
    return this.#root;
  }

  /** `source`: the number of the whole table that it is columns of. */
  table(
    table: CostTable,
    source: number,
    own: Pick<KnownTable, "bytes" | "isHalvable">,
  ): KnownTable {
    const name = `${source} ${table.dim}`;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const vector = tableVector(this.#networks, table);
    const made: KnownTable = {
      key: this.#known.size,
      vector,
      ...own,
      columns: table.dim,
      cost: computeCost(this.#networks, vector),
    };
    this.#known.set(name, made);
    return made;
  }

  /** The state with one more table. */
  with(state: DeviceState, table: KnownTable): DeviceState {
    this.#asked++;
    const known = state.next.get(table.key);
    if (known !== undefined) return known;
    this.#computed++;
    if (++this.#states > statesMax) {
      this.#states = 0;
      this.#root = emptyState(this.#networks);
    }
    const sum = state.sum.map((value, i) => value + (table.vector[i] ?? 0));
    const made: DeviceState = {
      sum,
      compute: computeCost(this.#networks, sum),
      columns: state.columns + table.columns,
      bytes: state.bytes + table.bytes,
      next: new Map(),
    };
    state.next.set(table.key, made);
    return made;
  }
}

/** Without a table nothing is looked up, whatever the network would say of the sum 0. */
function emptyState({ table }: CostNetworks): DeviceState {
  const width = table.layers.at(-1)?.bias.length ?? 0;
  return { sum: new Float64Array(width), compute: 0, columns: 0, bytes: 0, next: new Map() };
}
