// The cache of a search: what is on a device, as the path of the parts that were placed on it, one
// behind the other. A state is made once, however often a search comes by; it has the sum of its
// tables' vectors, so that one more table costs one sum and the head of the network.
//
// Invariants
//   S1. A state is never changed but for the states behind it.
//   S2. There are at most `statesMax` of them; then the tree begins anew, and older states stay
//       usable for those who hold them.

import { type CostNetworks, computeCost, type DeviceLoad, tableVector } from "./cost-networks.ts";
import type { TablePart } from "./parts.ts";

/** Some hundred bytes each. */
const statesMax = 200_000;

/** A part of a table, with what a search needs of it. */
export interface KnownPart extends Pick<TablePart, "bytes" | "formulaMs" | "isCopied"> {
  /** Equal for equal parts. */
  readonly key: number;
  /** Zeros of a copy. */
  readonly vector: Float64Array;
  /** That are exchanged: none of a copy. */
  readonly columns: number;
  /** Milliseconds of its lookup and update alone on a device. */
  readonly cost: number;
}

/** What is on a device. */
export interface DeviceState extends DeviceLoad {
  readonly sum: Float64Array;
  /** Milliseconds of its parts that the networks do not know; `compute` has them. */
  readonly formulaMs: number;
  readonly bytes: number;
  /** With one more part, by its key. */
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
  readonly #known = new Map<string, KnownPart>();
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

  /** What is known of a part. */
  part({ name, table, bytes, formulaMs, isCopied }: TablePart): KnownPart {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const { length } = this.#root.sum;
    const vector = isCopied ? new Float64Array(length) : tableVector(this.#networks, table);
    const made: KnownPart = {
      ...{ key: this.#known.size, vector, bytes, formulaMs, isCopied },
      columns: isCopied ? 0 : table.dim,
      cost: formulaMs + (isCopied ? 0 : computeCost(this.#networks, vector)),
    };
    this.#known.set(name, made);
    return made;
  }

  /** The state with one more part. */
  with(state: DeviceState, part: KnownPart): DeviceState {
    this.#asked++;
    const known = state.next.get(part.key);
    if (known !== undefined) return known;
    this.#computed++;
    if (++this.#states > statesMax) {
      this.#states = 0;
      this.#root = emptyState(this.#networks);
    }
    const sum = state.sum.map((value, i) => value + (part.vector[i] ?? 0));
    const columns = state.columns + part.columns;
    const formulaMs = state.formulaMs + part.formulaMs;
    const made: DeviceState = {
      ...{ sum, columns, formulaMs },
      compute: formulaMs + (columns === 0 ? 0 : computeCost(this.#networks, sum)),
      bytes: state.bytes + part.bytes,
      next: new Map(),
    };
    state.next.set(part.key, made);
    return made;
  }
}

/** Without a table nothing is looked up, whatever the network would say of the sum 0. */
function emptyState({ table }: CostNetworks): DeviceState {
  const width = table.layers.at(-1)?.bias.length ?? 0;
  return {
    sum: new Float64Array(width),
    ...{ compute: 0, columns: 0, formulaMs: 0, bytes: 0 },
    next: new Map(),
  };
}
