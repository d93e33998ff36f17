// The cache of a search: device states in a tree, in which the path to a state is the sequence of
// parts placed on the device. A state is computed once, however often the search reaches it. It
// keeps the sum of its tables' vectors, so that one more table costs one sum and the head of the
// network.
//
// Invariants
//   S1. A state never changes, except that `next` grows.
//   S2. The tree has at most `statesMax` states; then a new tree begins. Older states stay valid
//       for their holders.

import { type CostNetworks, computeCost, type DeviceLoad, tableVector } from "./cost-networks.ts";
import type { TablePart } from "./parts.ts";

/** Limit of memory: a state takes some hundred bytes. */
const statesMax = 200_000;

/** A part of a table, with the values that a search computes of it once. */
export interface KnownPart extends Pick<TablePart, "bytes" | "formulaMs" | "isCopied"> {
  /** Equal for equal parts. */
  readonly key: number;
  /** The part's vector; zeros for a copy. */
  readonly vector: Float64Array;
  /** Columns that are exchanged; 0 for a copy. */
  readonly columns: number;
  /** Milliseconds of its lookup and update alone on a device. */
  readonly cost: number;
}

/** A device with some parts. */
export interface DeviceState extends DeviceLoad {
  readonly sum: Float64Array;
  /** Milliseconds of its parts that the networks do not predict; included in `compute`. */
  readonly formulaMs: number;
  readonly bytes: number;
  /** The states with one more part, by the key of that part. */
  readonly next: Map<number, DeviceState>;
}

export interface CacheCounts {
  /** States that were requested; `computed`: those that were not in the cache. */
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

  /** Returns the values of a part, computed at its first request. */
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

  /** Returns the state with one more part. */
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

/** A device without tables costs 0, whatever the network predicts for the sum 0. */
function emptyState({ table }: CostNetworks): DeviceState {
  const width = table.layers.at(-1)?.bias.length ?? 0;
  return {
    sum: new Float64Array(width),
    ...{ compute: 0, columns: 0, formulaMs: 0, bytes: 0 },
    next: new Map(),
  };
}
