// Dependencies between transforms: their order of computation, and cycles.

import type { Transform, TransformInput } from "./transform-options.ts";

/**
 * The columns that a transform makes. `onehot` makes one per element: `output.0`, `output.1` ...
 */
export function outputsOf(transform: Transform): string[] {
  if (transform.op === "sampling") return [];
  const { output } = transform;
  if (transform.op !== "onehot") return [output];
  return Array.from({ length: transform.buckets }, (_, element) => `${output}.${element}`);
}

/**
 * Replaces each column that names a `onehot` by the columns of its elements: `hour` by `hour.0`,
 * `hour.1` ...
 */
export function expanded<Named extends { readonly column: string }>(
  columns: readonly Named[],
  transforms: readonly Transform[] = [],
): Named[] {
  const vectors = new Map(
    transforms.flatMap((one) => (one.op === "onehot" ? [[one.output, outputsOf(one)]] : [])),
  );
  return columns.flatMap((own) => {
    return vectors.get(own.column)?.map((column) => ({ ...own, column })) ?? [own];
  });
}

/** The inputs of a transform, each with its path in the entry. */
export function inputsOf(
  transform: Transform,
): { readonly input: TransformInput; readonly path: readonly (string | number)[] }[] {
  if (transform.op === "sampling") {
    return transform.by === undefined ? [] : [{ input: transform.by, path: ["by"] }];
  }
  if ("inputs" in transform) {
    return transform.inputs.map((input, i) => ({ input, path: ["inputs", i] }));
  }
  return [{ input: transform.input, path: ["input"] }];
}

/**
 * Sorts transforms topologically: each after those that it reads, otherwise by the name of the
 * output, sampling last. Transforms in a cycle, or with equal outputs, keep a stable order.
 */
export function inOrder(transforms: readonly Transform[]): Transform[] {
  const named = transforms.map((transform) => ({ transform, name: nameOf(transform) }));
  const left = named.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const makers = makersOf(left.map(({ transform }) => transform));
  const done = new Set<number>();
  const sorted: Transform[] = [];
  const visit = (index: number): void => {
    const transform = left[index]?.transform;
    if (transform === undefined || done.has(index)) return;
    done.add(index);
    for (const { input } of inputsOf(transform)) {
      const maker = makers.get(input.column);
      if (maker !== undefined) visit(maker);
    }
    sorted.push(transform);
  };
  for (const index of left.keys()) visit(index);
  return sorted;
}

/** Sort key of a transform. Sampling sorts after every output's name. */
function nameOf(transform: Transform): string {
  return transform.op === "sampling" ? `\uffff${JSON.stringify(transform)}` : transform.output;
}

function makersOf(transforms: readonly Transform[]): Map<string, number> {
  const makers = new Map<string, number>();
  for (const [index, transform] of transforms.entries()) {
    for (const output of outputsOf(transform)) makers.set(output, index);
  }
  return makers;
}

/**
 * Finds a cycle of transforms: the path of the input by which its first transform reads the next
 * one, and the names along the cycle. Undefined if there is no cycle.
 */
export function circleOf(
  transforms: readonly Transform[],
): { readonly path: (string | number)[]; readonly names: string[] } | undefined {
  const makers = makersOf(transforms);
  const done = new Set<number>();
  const way: number[] = [];
  const visit = (index: number): number | undefined => {
    const transform = transforms[index];
    if (transform === undefined || done.has(index)) return undefined;
    if (way.includes(index)) return index;
    way.push(index);
    for (const { input } of inputsOf(transform)) {
      const maker = makers.get(input.column);
      const found = maker === undefined ? undefined : visit(maker);
      if (found !== undefined) return found;
    }
    way.pop();
    done.add(index);
    return undefined;
  };
  for (const index of transforms.keys()) {
    const begin = visit(index);
    if (begin === undefined) continue;
    const circle = way.slice(way.indexOf(begin));
    const names = [...circle, begin].map((at) => nameOf(transforms[at] as Transform));
    const next = circle[1] ?? begin;
    const read = inputsOf(transforms[begin] as Transform).find(
      ({ input }) => makers.get(input.column) === next,
    );
    return { path: [begin, ...(read?.path ?? [])], names };
  }
  return undefined;
}
