// The subtrees of slices over which a device adds up gradients, before they leave it.

import { grainsOf } from "../../exchange/layout.ts";
import { subtreeMaxOf, topKUnitsOf } from "../../exchange/top-k-layout.ts";
import { type Subtree, subtreesOf } from "../../kernels/contract/slices.ts";
import type { Topology } from "./topology.ts";

/**
 * The subtrees of slices for each of which a device requests a row of a table with `dedup` once,
 * and sends back one gradient. Gradients in fewer bits are those of single slices: the leaves of
 * the tree are the same on any number of devices.
 */
export function distinctTreesIn(topology: Topology, device: number): Subtree[] {
  if (topology.exchange.backward === "float32") return subtreesIn(topology, device);
  const { firstSlice, slices } = topology.sliceRuns[device] ?? { firstSlice: 0, slices: 0 };
  return Array.from({ length: slices }, (_, i) => ({ first: firstSlice + i, count: 1 }));
}

/** The subtrees of slices that a device finishes, left to right. */
export function subtreesIn(topology: Topology, device: number): Subtree[] {
  const { firstSlice, slices } = topology.sliceRuns[device] ?? { firstSlice: 0, slices: 0 };
  return subtreesOf(firstSlice, slices, subtreeMaxOf(topology.topK, topology.input.slices));
}

/** The same, cut into the grains of rounded gradients: those of the dense layers. */
export function denseSubtreesIn(topology: Topology, device: number): readonly Subtree[] {
  return grainsOf(subtreesIn(topology, device), topology.rounding);
}

/** The lengths of the residuals that a device keeps, one for each of its slices; empty: none. */
export function residualLengths({ topK, sliceRuns, input }: Topology, device: number): number[] {
  const { firstSlice, slices } = sliceRuns[device] ?? { firstSlice: 0, slices: 0 };
  const units = topK === undefined ? [] : topKUnitsOf(topK, input.slices);
  return units.slice(firstSlice, firstSlice + slices).map(({ range }) => range.count);
}
