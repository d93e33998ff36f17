// Buckets of the dense gradient: ranges of the all-reduced vector that are sent on their own, in
// the order in which the backward pass completes them. So the gradients of the last layers travel
// while the first layers compute theirs (PyTorch DDP does the same). The vector itself keeps its
// order: the layers by name, then the tables that every device holds.
//
// Buckets decide no bit. They follow the shape of the job and its hosts, not measurements.

import type { Elements, GradientRounding, TopKShape } from "../../exchange/exchange.ts";
import type { ExchangeSpec } from "../../exchange/options.ts";
import type { Graph } from "../../model/graph/graph.ts";
import { backwardOrder } from "../../model/graph/network.ts";

export interface GradientBuckets {
  /** The buckets, in the order in which they are ready. */
  readonly buckets: readonly Elements[];
  /** For each node of the graph, how many buckets are ready after its backward pass. */
  readonly readyAfter: readonly number[];
}

/** A range of the vector, and when it is ready: a position in the order of the backward pass. */
interface Segment extends Elements {
  readonly readyAt: number;
  /** The part of the backward pass that ends with it: blocks behind lookups, the others, tables. */
  readonly part: "late" | "early" | "tables";
}

const mebibyte = 2 ** 20;
/** Floats from which on a bucket is full: the size of PyTorch DDP's buckets. */
const fullFloats = (25 * mebibyte) / 4;
/** Most buckets: a bridge looks at every bucket's cells when it wakes. */
const bucketsMax = 16;
/** Least floats of a bucket, and of a device's range of it: a message has a cost of its own. */
const leastFloats = (64 * 1024) / 4;
const leastOfDevice = 1024;

/** Buckets of a vector of `length` elements, of which the layers have `graph.layout.length`. */
export function gradientBuckets(
  graph: Graph,
  length: number,
  { devices, hosts }: { readonly devices: number; readonly hosts: number },
  {
    rounding,
    topK,
  }: { readonly rounding: GradientRounding | undefined; readonly topK: TopKShape | undefined },
): GradientBuckets {
  if (topK !== undefined) {
    // The selected elements travel apart (top-k-all-reduce.ts), after the whole backward pass.
    const rest = { first: topK.length, count: length - topK.length };
    return { buckets: [rest], readyAfter: graph.nodes.map(() => 0) };
  }
  const full = Math.max(fullFloats, Math.ceil(length / bucketsMax));
  const least = Math.max(leastFloats, leastOfDevice * devices);
  // Rounded and other elements never share a bucket.
  const border = rounding?.elements ?? 0;
  const isBorder = ({ first }: Elements) => first > 0 && first === border;
  const found: Segment[] = [];
  // From the end, because the last layers are ready first.
  for (const next of segmentsOf(graph, length, full).reverse()) {
    const open = found.at(-1);
    // On one host no bytes travel, and each bucket costs a round of waits.
    const isFull =
      hosts > 1 &&
      open !== undefined &&
      open.count >= least &&
      (open.part !== next.part || open.count + next.count > full);
    if (open === undefined || isFull || isBorder(open)) found.push(next);
    else found[found.length - 1] = joined(next, open);
  }
  const [last, open] = [found.at(-1), found.at(-2)];
  if (last && open && last.count < least && !isBorder(open)) {
    found.splice(-2, 2, joined(last, open));
  }
  found.sort((a, b) => a.readyAt - b.readyAt);
  const readyAfter = new Array<number>(graph.nodes.length).fill(0);
  for (const [at, node] of backwardOrder(graph).entries()) {
    readyAfter[node] = found.filter(({ readyAt }) => readyAt <= at).length;
  }
  return { buckets: found.map(({ first, count }) => ({ first, count })), readyAfter };
}

/** A segment and the one behind it, which are ready when both are. */
function joined(a: Segment, b: Segment): Segment {
  const { readyAt, part } = a.readyAt > b.readyAt ? a : b;
  return { first: a.first, count: a.count + b.count, readyAt, part };
}

/** The parameters in the order of the vector, then the tables, in pieces of `most` elements. */
function segmentsOf(graph: Graph, length: number, most: number): Segment[] {
  const { nodes, layout } = graph;
  const order = backwardOrder(graph);
  const madeBy = new Map(
    order.flatMap((node, readyAt) => {
      const { parameters = [], isEarly = false } = nodes[node] ?? {};
      const part = isEarly ? ("early" as const) : ("late" as const);
      return parameters.map(({ name }) => [name, { readyAt, part }] as const);
    }),
  );
  const first = layout.length;
  const tables = { first, count: length - first, readyAt: order.length, part: "tables" } as const;
  const all = layout.parameters.map((own): Segment => {
    const { readyAt = 0, part = "late" } = madeBy.get(own.name) ?? {};
    return { first: own.first, count: own.length, readyAt, part };
  });
  return [...all, tables].flatMap((segment) => {
    return Array.from({ length: Math.ceil(segment.count / most) }, (_, i) => {
      const count = Math.min(most, segment.count - i * most);
      return { ...segment, first: segment.first + i * most, count };
    });
  });
}

/** The rounding of dense gradients; undefined: they are exact. */
export function roundingOf(
  { dense, denseParts }: ExchangeSpec,
  slices: number,
  graph: Graph,
): GradientRounding | undefined {
  if (dense === "float32") return undefined;
  const grain = Math.max(1, slices / denseParts);
  return { precision: dense, grain, elements: graph.layout.length };
}
