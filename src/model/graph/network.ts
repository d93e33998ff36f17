// A graph with its tensors on one device: the dense parameters and, for each node, its output, the
// gradient of its output, and its block.
//
// B = samples of a pass, Bmax = maximum of B.

import type { DensePrecision, Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { gradientMemory } from "./gradients.ts";
import {
  type AxisPass,
  type Block,
  type Graph,
  groupPassOf,
  type Memory,
  type Node,
  type Pass,
  passOn,
} from "./graph.ts";
import { parameterIn } from "./parameters.ts";
import { createReplays, type Run } from "./replay.ts";

/** A node on a device. */
interface Cell {
  readonly axis: number;
  readonly isEarly: boolean;
  readonly block: Block | undefined;
  /** Run the block, or replay its kernel calls of an earlier pass. */
  readonly run: { readonly forward: Run; readonly backward: Run };
  /** (Bmax, …); a scorer sets its own (src/serving). */
  out: Tensor;
  /** (Bmax, …); undefined: no gradient is needed. */
  readonly dOut: Tensor | undefined;
  /** Gradients of the readers, if several blocks read the output: summed into `dOut`. */
  readonly dParts: readonly Tensor[];
}

export interface Network {
  readonly kernels: Kernels;
  readonly graph: Graph;
  /** All dense parameters, flat. */
  readonly flat: Tensor;
  readonly cells: readonly Cell[];
  readonly early: Half;
  readonly late: Half;
}

/** The nodes of a half of a pass, in the order of each direction, and its runners as a whole. */
interface Half {
  readonly forward: readonly number[];
  readonly backward: readonly number[];
  readonly run: { readonly forward: Run; readonly backward: Run };
}

/** Columns of a tensor (B,·), from `column` on. */
export interface VectorsAt {
  readonly of: Tensor;
  readonly column: number;
}

/**
 * Creates a network for batches of at most `samplesMax` samples on this device. `flats`: flat
 * gradients, one for each finished subtree of slices. `flat`: the parameters, which networks may
 * share; left out: parameters of its own, all zero.
 */
export function createNetwork(options: {
  readonly kernels: Kernels;
  readonly graph: Graph;
  readonly precision: DensePrecision;
  readonly samplesMax: number;
  readonly flats: readonly Tensor[];
  readonly flat?: Tensor;
}): Network {
  const { kernels, graph, samplesMax } = options;
  const { flat = kernels.tensor([graph.layout.length]) } = options;
  const cells: Cell[] = [];
  // A device without samples has memory for one: blocks look at its shape when they start.
  const memoryOf = ({ shape }: Node) => kernels.tensor([Math.max(1, samplesMax), ...shape]);
  // Gradients are assigned before any block starts, because blocks ask for the tensors of their
  // inputs.
  const gradients = gradientMemory(graph, memoryOf);
  const replays = createReplays(kernels);
  const runners = () => ({ forward: replays.runner(), backward: replays.runner() });
  for (const [index, node] of graph.nodes.entries()) {
    const { dOut, dParts = [] } = gradients[index] ?? {};
    const out = memoryOf(node);
    const part = (of: Tensor | undefined, samples: number) => {
      if (of === undefined) throw new RangeError(`Node ${index} has no such tensor`);
      return kernels.part(of, 0, samples);
    };
    const gradientOf = (input: number) =>
      gradients[node.inputs[input]?.node ?? -1]?.readers.find(
        (reader) => reader.node === index && reader.input === input,
      );
    const shaped = (of: Tensor | undefined, input: number, samples: number) =>
      of && kernels.reshape(part(of, samples), [samples, ...(node.inputs[input]?.shape ?? [])]);
    // Most batches have the size of the previous batch, so the tensor handles are reused.
    const outs = lastOf(part);
    const inputs = node.inputs.map(({ shape }) => {
      return lastOf((of, samples) => kernels.reshape(part(of, samples), [samples, ...shape]));
    });
    const memory: Memory = {
      ...options,
      x(input, samples) {
        const take = inputs[input];
        const from = node.inputs[input]?.node ?? -1;
        if (take === undefined) throw new RangeError(`Node ${index} has no input ${input}`);
        return take(cells[from]?.out, samples);
      },
      dX: (input, samples) => shaped(gradientOf(input)?.to, input, samples),
      others: (input, samples) =>
        gradientOf(input)?.others.flatMap((other) => shaped(other, input, samples) ?? []) ?? [],
      reluOf: (input, samples) =>
        gradients[node.inputs[input]?.node ?? -1]?.isZeroed === true
          ? memory.x(input, samples)
          : undefined,
      isZeroed: gradients[index]?.isZeroed === true,
      out: (samples) => outs(cells[index]?.out, samples),
      dOut: (samples) => kernels.reshape(part(dOut, samples), [samples, ...node.shape]),
      parameter: (name) => parameterIn(kernels, flat, graph.layout, name),
      gradients(name) {
        const isOwn = node.parameters?.some((own) => own.name === name) === true;
        // The exchange sends the gradient once this node has ended.
        if (!isOwn) throw new RangeError(`Node ${index} has no parameter ${name}`);
        return options.flats.map((tree) => parameterIn(kernels, tree, graph.layout, name));
      },
    };
    const { axis, isEarly } = node;
    const block = node.start?.(memory);
    cells.push({ axis, dOut, dParts, out, isEarly, block, run: runners() });
  }
  const halfOf = (isEarly: boolean): Half => {
    const isOwn = (node: number) => graph.nodes[node]?.isEarly === isEarly;
    const forward = [...graph.nodes.keys()].filter(isOwn);
    return { forward, backward: backwardOrder(graph).filter(isOwn), run: runners() };
  };
  return { kernels, graph, flat, cells, early: halfOf(true), late: halfOf(false) };
}

/** Floats of a sample in a network: the outputs of all nodes, and their gradients. */
export function networkFloats(graph: Graph): number {
  let floats = 0;
  const count = ({ shape }: Node): Tensor => {
    floats += shape.reduce((size, extent) => size * extent, 1);
    return { shape };
  };
  gradientMemory(graph, count);
  for (const node of graph.nodes) count(node);
  return floats;
}

/** Memoises `make` for its last arguments. */
function lastOf(
  make: (of: Tensor | undefined, samples: number) => Tensor,
): (of: Tensor | undefined, samples: number) => Tensor {
  let last:
    | { readonly of: Tensor | undefined; readonly samples: number; readonly made: Tensor }
    | undefined;
  return (of, samples) => {
    if (last === undefined || last.of !== of || last.samples !== samples) {
      last = { of, samples, made: make(of, samples) };
    }
    return last.made;
  };
}

/** Undefined if all blocks ran synchronously, else a promise that waits for other devices. */
type Done = Promise<void> | undefined;

/** Runs the blocks that need no lookup. `dense` (B,·): the dense features. */
export function forwardEarly(network: Network, dense: Tensor, pass: Pass): Done {
  const { kernels, cells, graph } = network;
  const cell = cells[graph.dense?.node ?? -1];
  // Batches lie in different memory. They are copied to one place, so that the first layers make
  // the same kernel calls for every batch, which can be replayed (R1 of replay.ts).
  if (cell !== undefined) kernels.copy(kernels.part(cell.out, 0, pass.samples), dense);
  return forward(network, pass, network.early);
}

/** Runs the remaining blocks, after the vectors of all lookups were written. */
export function forwardLate(network: Network, pass: Pass): Done {
  return forward(network, pass, network.late);
}

function forward({ cells }: Network, pass: Pass, half: Half): Done {
  const inTurn = (own: Pass, isWhole: boolean) =>
    eachInTurn(half.forward, (node) => {
      const { axis = 0, block, run } = cells[node] ?? {};
      const on = passOn(own, axis);
      if (isWhole) return block?.forward(on) ?? undefined;
      return block && run?.forward(on, (one) => block.forward(one));
    });
  return half.run.forward(
    pass,
    (own) => inTurn(own, true),
    (own) => inTurn(own, false),
  );
}

/** Calls `run` on the nodes in order; synchronously, as long as it returns no promise. */
function eachInTurn(nodes: readonly number[], run: (node: number) => Done, first = 0): Done {
  for (let i = first; i < nodes.length; i++) {
    const waiting = run(nodes[i] ?? -1);
    if (waiting !== undefined) return waiting.then(() => eachInTurn(nodes, run, i + 1));
  }
  return undefined;
}

/** Called after the backward pass of a node: the gradients of its parameters are complete. */
type Ended = (node: number) => void;

/** Receives the progress of a backward pass. `isEach`: after each node, else after each half. */
interface Progress {
  readonly ended: Ended;
  readonly isEach: boolean;
}

const unnoted: Progress = { ended: () => {}, isEach: false };

/**
 * Computes the gradients of all lookups' vectors, and of the parameters of the blocks that need
 * lookups, from `dLogitsOf`, which it overwrites.
 */
export function backwardLate(network: Network, pass: Pass, progress: Progress = unnoted): Done {
  return backward(network, pass, network.late, progress);
}

/** Computes the gradients of the parameters of the early blocks. */
export function backwardEarly(network: Network, pass: Pass, progress: Progress = unnoted): Done {
  return backward(network, pass, network.early, progress);
}

/** The nodes of a graph in the order of `backwardLate`, then of `backwardEarly`. */
export function backwardOrder({ nodes }: Graph): number[] {
  const trained = [...nodes.keys()].filter((node) => nodes[node]?.needsGradient).reverse();
  const isEarly = (node: number) => nodes[node]?.isEarly === true;
  return [...trained.filter((node) => !isEarly(node)), ...trained.filter(isEarly)];
}

function backward(network: Network, pass: Pass, half: Half, { ended, isEach }: Progress): Done {
  const inTurn = (own: Pass, run: (cell: Cell, on: AxisPass, work: Work) => Done, after: Ended) =>
    eachInTurn(half.backward, (node) => {
      const cell = network.cells[node];
      if (cell === undefined) return undefined;
      const waiting = run(cell, passOn(own, cell.axis), (on) => {
        sumGradients(network, cell, on.samples);
        return cell.block?.backward(on);
      });
      return andThen(waiting, () => after(node));
    });
  const each = (own: Pass) => inTurn(own, ({ run }, on, work) => run.backward(on, work), ended);
  if (isEach) return each(pass);
  const whole = (own: Pass) => inTurn(own, (_, on, work) => work(on) ?? undefined, unnoted.ended);
  return andThen(half.run.backward(pass, whole, each), () => {
    for (const last of half.backward.slice(-1)) ended(last);
  });
}

type Work = (on: AxisPass) => Promise<void> | void;

/** Calls `after` once the promise has resolved, or now if there is none. */
function andThen(waiting: Done, after: () => void): Done {
  if (waiting !== undefined) return waiting.then(after);
  after();
  return undefined;
}

/** Sums the gradients of the readers of a node, if several blocks read its output. */
function sumGradients({ kernels }: Network, { dOut, dParts }: Cell, samples: number): void {
  const [first, ...others] = dParts.map((part) => kernels.part(part, 0, samples));
  let sum = first;
  for (const other of others) {
    if (sum === undefined || dOut === undefined) break;
    const to = kernels.part(dOut, 0, samples);
    kernels.add(to, sum, other);
    sum = to;
  }
}

/** (B,K): the logits of the last forward pass. */
export function logitsOf({ kernels, graph, cells }: Network, samples: number): Tensor {
  return tensorOf(kernels, cells[graph.output.node]?.out, samples);
}

/** The tensor (B,K) into which the loss writes the gradient of the logits. */
export function dLogitsOf({ kernels, graph, cells }: Network, samples: number): Tensor {
  return tensorOf(kernels, cells[graph.output.node]?.dOut, samples);
}

/** The destination of the vectors (B,·) of a lookup. `samples`: rows of its axis. */
export function vectorsOf(network: Network, lookup: number, samples: number): VectorsAt {
  const { node, column } = placeOf(network, lookup);
  return { of: tensorOf(network.kernels, network.cells[node]?.out, samples), column };
}

/** The tensor into which `backwardLate` writes the gradients of a lookup's vectors. */
export function gradientsAt(network: Network, lookup: number, samples: number): VectorsAt {
  const { node, column } = placeOf(network, lookup);
  return { of: tensorOf(network.kernels, network.cells[node]?.dOut, samples), column };
}

/**
 * All tensors with gradients of lookups, each once, with a row for each sample or distinct list of
 * their axis. For error reports.
 */
export function lookupGradients(network: Network, pass: Pass): { axis: number; of: Tensor }[] {
  const nodes = new Set(network.graph.places.map(({ node }) => node));
  return [...nodes].map((node) => {
    const { axis = 0, dOut } = network.cells[node] ?? {};
    return { axis, of: tensorOf(network.kernels, dOut, passOn(pass, axis).samples) };
  });
}

/** The row that belongs to a sample on an axis. */
export function rowOf(pass: Pass, axis: number, sample: number): number {
  return axis === 0 ? sample : (groupPassOf(pass, axis).inverse[sample] ?? 0);
}

function placeOf({ graph }: Network, lookup: number) {
  const place = graph.places[lookup];
  if (place === undefined) throw new RangeError(`The model has no lookup ${lookup}`);
  return place;
}

/** The last requested part of each tensor, because a step requests it once for each lookup. */
const lastParts = new WeakMap<Tensor, Tensor>();

function tensorOf(kernels: Kernels, of: Tensor | undefined, samples: number): Tensor {
  if (of === undefined) throw new RangeError("The network has no such tensor");
  const known = lastParts.get(of);
  if (known?.shape[0] === samples) return known;
  const part = kernels.part(of, 0, samples);
  lastParts.set(of, part);
  return part;
}
