// Gradient memory: which tensor holds the gradient of each value, and which block accumulates the
// gradients of a value that several blocks read.
//
// Gradients are summed in one order, that of the reading blocks (graph.ts). The first reader runs
// last in the backward pass, when all other readers have written their gradients: if it `adds`, it
// adds them to its own, in that order. Otherwise the network sums them (network.ts).
//
// A gradient that passes a block unchanged is not copied: two values then share a tensor, so
//   G1. a shared tensor is not overwritten before all its users have read it: it is a part of a
//       sum, or the gradient of a block that leaves it unchanged.

import { addendsMax, type Tensor } from "../../kernels/contract/kernels.ts";
import type { Graph, Node } from "./graph.ts";

/** The tensors for the gradient of one value. */
export interface GradientMemory {
  /** (Bmax, …); undefined: no gradient is needed. */
  readonly dOut: Tensor | undefined;
  /**
   * For each reader in order, the tensor for its gradient; undefined: the reader's `dOut` is its
   * gradient.
   */
  readonly readers: readonly ReaderGradient[];
  /** Gradients that the network sums into `dOut`, in order. */
  readonly dParts: readonly Tensor[];
  /**
   * Whether the only reader applies the ReLU mask: zeroes the gradient where the value is not
   * positive.
   */
  readonly isZeroed: boolean;
}

interface ReaderGradient {
  readonly node: number;
  readonly input: number;
  readonly to: Tensor | undefined;
  /** Gradients of other readers that this reader adds to its own. */
  readonly others: readonly Tensor[];
}

/** Assigns gradient tensors to all nodes. */
export function gradientMemory(graph: Graph, memoryOf: (node: Node) => Tensor): GradientMemory[] {
  const { nodes } = graph;
  const readers = readersOf(graph);
  const made: GradientMemory[] = [];
  // From the last node backward, because a value may share the gradient of its reader.
  for (const [index, node] of [...nodes.entries()].reverse()) {
    const own = readers[index] ?? [];
    if (!node.needsGradient) {
      made[index] = { dOut: undefined, readers: [], dParts: [], isZeroed: false };
      continue;
    }
    const passed = own.map(({ node: to, input }) =>
      nodes[to]?.passes?.includes(input) ? made[to]?.dOut : undefined,
    );
    const [first] = own;
    const isZeroed =
      node.hasRelu === true && own.length === 1 && nodes[first?.node ?? -1]?.zeroes === true;
    const memory = () => memoryOf(node);
    const gradient =
      own.length > 1
        ? memoryOfSum(nodes, own, passed, memory)
        : memoryOfOne(own, canShare(graph, index) ? passed[0] : undefined, memory);
    made[index] = { ...gradient, isZeroed };
  }
  return made;
}

type Reader = Pick<ReaderGradient, "node" | "input">;

/** For a value with one reader or none. */
function memoryOfOne(
  readers: readonly Reader[],
  passed: Tensor | undefined,
  memory: () => Tensor,
): Omit<GradientMemory, "isZeroed"> {
  const dOut = passed ?? memory();
  const to = passed === undefined ? dOut : undefined;
  return { dOut, readers: readers.map((reader) => ({ ...reader, to, others: [] })), dParts: [] };
}

/** For a value with several readers. */
function memoryOfSum(
  nodes: readonly Node[],
  readers: readonly Reader[],
  passed: readonly (Tensor | undefined)[],
  memory: () => Tensor,
): Omit<GradientMemory, "isZeroed"> {
  const dOut = memory();
  const adds = addsLast(nodes, readers);
  const parts = passed.map((own, i) => (adds && i === 0 ? dOut : (own ?? memory())));
  const others = adds ? parts.slice(1) : [];
  return {
    dOut,
    readers: readers.map((reader, i) => ({
      ...reader,
      to: passed[i] === undefined || (adds && i === 0) ? parts[i] : undefined,
      others: i === 0 ? others : [],
    })),
    dParts: adds ? [] : parts,
  };
}

/** Whether the first reader can sum all gradients: it must run backward after all other readers. */
function addsLast(nodes: readonly Node[], readers: readonly Reader[]): boolean {
  const [first, ...others] = readers.map(({ node }) => nodes[node]);
  const isLast = first?.isEarly === true || others.every((other) => other?.isEarly === false);
  return first?.adds === true && isLast && others.length <= addendsMax;
}

/** Whether a value may share the gradient of its only reader (G1). */
function canShare({ nodes, output }: Graph, index: number): boolean {
  const node = nodes[index];
  return node?.keepsGradient === true && node.hasLookups !== true && index !== output.node;
}

/** The readers of each node, in forward order. */
function readersOf({ nodes }: Graph): Reader[][] {
  const readers = nodes.map((): Reader[] => []);
  for (const [node, { inputs }] of nodes.entries()) {
    for (const [input, from] of inputs.entries()) readers[from.node]?.push({ node, input });
  }
  return readers;
}
