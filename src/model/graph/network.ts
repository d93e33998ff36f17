// A graph with memory on one device: the dense parameters and, for each node, its output, the
// gradient of its output and its block.
//
// B = samples of a pass, Bmax = the most of them.

import type { DensePrecision, Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import type { Block, Graph, Memory, Node, Pass } from "./graph.ts";
import { parameterIn } from "./parameters.ts";

/** What a node has on a device. */
interface Cell {
  readonly isEarly: boolean;
  readonly block: Block | undefined;
  /** (Bmax, …). Of the dense features: the batch's own memory. */
  out: Tensor;
  /** (Bmax, …); undefined: no gradient is needed. */
  readonly dOut: Tensor | undefined;
  /** Gradients that blocks write, where several read the output: added up in `dOut`. */
  readonly dParts: readonly Tensor[];
}

export interface Network {
  readonly kernels: Kernels;
  readonly graph: Graph;
  /** All dense parameters, flat. */
  readonly flat: Tensor;
  readonly cells: readonly Cell[];
}

/** Columns of a tensor (B,·). */
export interface VectorsAt {
  readonly of: Tensor;
  readonly column: number;
}

/**
 * A network for batches of at most `samplesMax` samples on this device; parameters are zero.
 * `flats`: flat gradients, one for each finished subtree of slices.
 */
export function createNetwork(options: {
  readonly kernels: Kernels;
  readonly graph: Graph;
  readonly precision: DensePrecision;
  readonly samplesMax: number;
  readonly flats: readonly Tensor[];
}): Network {
  const { kernels, graph, samplesMax } = options;
  const flat = kernels.tensor([graph.layout.length]);
  const readers = readersOf(graph);
  const cells: Cell[] = [];
  const memoryOf = ({ shape }: Node) => kernels.tensor([samplesMax, ...shape]);
  // Before any block starts: it asks where the gradients of its inputs go.
  const gradients = graph.nodes.map((node, index) => {
    if (!node.needsGradient) return { dOut: undefined, dParts: [] };
    const count = readers[index]?.length ?? 0;
    const dParts = Array.from({ length: count > 1 ? count : 0 }, () => memoryOf(node));
    return { dOut: memoryOf(node), dParts };
  });
  for (const [index, node] of graph.nodes.entries()) {
    const own = gradients[index] ?? { dOut: undefined, dParts: [] };
    const isBatch = index === graph.dense?.node;
    const out = isBatch ? kernels.tensor([0]) : memoryOf(node);
    const part = (of: Tensor | undefined, samples: number) => {
      if (of === undefined) throw new RangeError(`Node ${index} has no such tensor`);
      return kernels.part(of, 0, samples);
    };
    const memory: Memory = {
      ...options,
      x(input, samples) {
        const { node: from = -1, shape = [] } = node.inputs[input] ?? {};
        return kernels.reshape(part(cells[from]?.out, samples), [samples, ...shape]);
      },
      dX(input, samples) {
        const { node: from = -1, shape = [] } = node.inputs[input] ?? {};
        const { dOut, dParts = [] } = gradients[from] ?? {};
        const reader = readers[from]?.findIndex((one) => one.node === index && one.input === input);
        const to = dParts[reader ?? -1] ?? dOut;
        return to && kernels.reshape(part(to, samples), [samples, ...shape]);
      },
      out: (samples) => part(cells[index]?.out, samples),
      dOut: (samples) => part(own.dOut, samples),
      parameter: (name) => parameterIn(kernels, flat, graph.layout, name),
      gradients: (name) =>
        options.flats.map((tree) => parameterIn(kernels, tree, graph.layout, name)),
    };
    cells.push({ ...own, out, isEarly: node.isEarly, block: node.start?.(memory) });
  }
  return { kernels, graph, flat, cells };
}

/** For each node the inputs of others that read it, in the order in which they run. */
function readersOf({ nodes }: Graph): { node: number; input: number }[][] {
  const readers = nodes.map((): { node: number; input: number }[] => []);
  for (const [node, { inputs }] of nodes.entries()) {
    for (const [input, from] of inputs.entries()) readers[from.node]?.push({ node, input });
  }
  return readers;
}

/** Blocks that ran: at once, or, where one waits for other devices, when these answered. */
type Done = Promise<void> | undefined;

/** Runs the blocks that need no lookup. `dense` (B,·): the dense features. */
export function forwardEarly(network: Network, dense: Tensor, pass: Pass): Done {
  const cell = network.cells[network.graph.dense?.node ?? -1];
  if (cell !== undefined) cell.out = dense;
  return forward(network, pass, true);
}

/** Runs the other blocks, after the vectors of all lookups were written. */
export function forwardLate(network: Network, pass: Pass): Done {
  return forward(network, pass, false);
}

function forward({ cells }: Network, pass: Pass, isEarly: boolean): Done {
  const own = cells.filter((cell) => cell.isEarly === isEarly);
  return eachInTurn(own, ({ block }) => block?.forward(pass));
}

/** Calls `run` on one after the other, at once where it returns no promise. */
function eachInTurn<T>(items: readonly T[], run: (item: T) => Promise<void> | void): Done {
  for (const [i, item] of items.entries()) {
    const waiting = run(item);
    if (waiting === undefined) continue;
    return waiting.then(() => eachInTurn(items.slice(i + 1), run));
  }
  return undefined;
}

/**
 * The gradients of all lookups' vectors, and of the parameters of the blocks that need lookups,
 * from `dLogitsOf`, which it overwrites.
 */
export function backwardLate(network: Network, pass: Pass): Done {
  return backward(network, pass, false);
}

/** The gradients of the other parameters. */
export function backwardEarly(network: Network, pass: Pass): Done {
  return backward(network, pass, true);
}

function backward({ kernels, cells }: Network, pass: Pass, isEarly: boolean): Done {
  const own = cells.filter((cell) => cell.isEarly === isEarly && cell.dOut !== undefined);
  return eachInTurn(own.toReversed(), ({ dOut, dParts, block }) => {
    const [first, ...others] = dParts.map((part) => kernels.part(part, 0, pass.samples));
    let sum = first;
    for (const other of others) {
      if (sum === undefined || dOut === undefined) break;
      const to = kernels.part(dOut, 0, pass.samples);
      kernels.add(to, sum, other);
      sum = to;
    }
    return block?.backward(pass);
  });
}

/** (B,K): the logits of the last forward pass. */
export function logitsOf({ kernels, graph, cells }: Network, samples: number): Tensor {
  return tensorOf(kernels, cells[graph.output.node]?.out, samples);
}

/** (B,K): where the loss leaves the gradient of the logits. */
export function dLogitsOf({ kernels, graph, cells }: Network, samples: number): Tensor {
  return tensorOf(kernels, cells[graph.output.node]?.dOut, samples);
}

/** Where the vectors (B,·) of a lookup go, and from which column on. */
export function vectorsOf(network: Network, lookup: number, samples: number): VectorsAt {
  const { node, column } = placeOf(network, lookup);
  return { of: tensorOf(network.kernels, network.cells[node]?.out, samples), column };
}

/** Where `backwardLate` leaves their gradients. */
export function gradientsAt(network: Network, lookup: number, samples: number): VectorsAt {
  const { node, column } = placeOf(network, lookup);
  return { of: tensorOf(network.kernels, network.cells[node]?.dOut, samples), column };
}

/** The gradients (B,·) that hold those of all lookups, each once. For error reports. */
export function lookupGradients(network: Network, samples: number): Tensor[] {
  const nodes = new Set(network.graph.places.map(({ node }) => node));
  return [...nodes].map((node) => tensorOf(network.kernels, network.cells[node]?.dOut, samples));
}

function placeOf({ graph }: Network, lookup: number) {
  const place = graph.places[lookup];
  if (place === undefined) throw new RangeError(`The model has no lookup ${lookup}`);
  return place;
}

function tensorOf(kernels: Kernels, of: Tensor | undefined, samples: number): Tensor {
  if (of === undefined) throw new RangeError("The network has no such tensor");
  return kernels.part(of, 0, samples);
}
