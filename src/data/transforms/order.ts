// Which transform reads which: the order in which they are computed, and circles.

import type { Transform, TransformInput } from "./transform-options.ts";

/** The columns that a transform makes: `onehot` one for each element, `output.0`, `output.1` ... */
export function outputsOf(transform: Transform): string[] {
  if (transform.op === "sampling") return [];
  const { output } = transform;
  if (transform.op !== "onehot") return [output];
  return Array.from({ length: transform.buckets }, (_, element) => `${output}.${element}`);
}

/**
 * The columns with each that names a `onehot` replaced by its elements: `hour` by `hour.0`,
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

/** What a transform reads, with the path of each in its entry. */
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
 * Each behind those that it reads; of those that could come next the one whose output comes first
 * in the alphabet, sampling last. Transforms in a circle, or with equal outputs, keep their order.
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

/** Sorts behind every name: no name has a control character. */
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
 * A circle of transforms, from one of them back to it: where it reads the next one, and the names.
 * Undefined: there is none.
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
