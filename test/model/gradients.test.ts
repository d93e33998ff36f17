// The gradient memory of a value that passes a block unchanged, or that several blocks read.

import test from "ava";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { concatAdd } from "../../src/model/blocks/concat.ts";
import { mul, sum } from "../../src/model/blocks/elements.ts";
import { linear } from "../../src/model/blocks/linear.ts";
import { type GradientMemory, gradientMemory } from "../../src/model/graph/gradients.ts";
import { GraphBuilder, reshape, type Value } from "../../src/model/graph/graph.ts";

const kernels = createReference("float32");

/** The memory of the gradients of a graph over three lookup vectors, by the values named. */
function memoryOf<Names extends string>(
  build: (graph: GraphBuilder, x: Value) => Record<Names, Value> & { readonly logit: Value },
): Record<Names, GradientMemory> {
  const graph = new GraphBuilder(0);
  const x = graph.add({ inputs: [], shape: [3], hasLookups: true });
  const values = build(graph, x);
  const made = gradientMemory(graph.finish(values.logit), ({ shape }) => kernels.tensor(shape));
  const named = Object.entries<Value>(values).map(([name, { node }]) => [name, made[node]]);
  return Object.fromEntries(named);
}

const layer = (graph: GraphBuilder, x: Value, name: string, relu = false) =>
  linear(graph, x, { name, outputs: 3, relu });

test("terms of a sum share the memory of its gradient, without a copy", (t) => {
  const { total, left, right } = memoryOf((graph, x) => {
    const [left, right] = [layer(graph, x, "l"), mul(graph, x, x)];
    const total = sum(graph, left, right);
    return { left, right, total, logit: linear(graph, total, { name: "out", outputs: 1 }) };
  });
  for (const term of [left, right]) {
    t.is(term.dOut, total.dOut);
    t.deepEqual(
      term.readers.map(({ to }) => to),
      [undefined],
    );
  }
});

test("a block that overwrites its output's gradient has memory of its own", (t) => {
  const { total, left, right } = memoryOf((graph, x) => {
    const [left, right] = [layer(graph, x, "l", true), layer(graph, x, "r")];
    const total = sum(graph, left, right);
    return { left, right, total, logit: linear(graph, total, { name: "out", outputs: 1 }) };
  });
  t.is(right.dOut, total.dOut);
  t.not(left.dOut, total.dOut);
  t.is(left.readers[0]?.to, left.dOut);
});

test("a layer with ReLU has its gradient zeroed by its reader, if that is one layer alone", (t) => {
  const { one, plain, two, multiplied } = memoryOf((graph, x) => {
    const one = layer(graph, x, "one", true);
    const plain = layer(graph, one, "plain");
    const two = layer(graph, plain, "two", true);
    const [left, right] = [layer(graph, two, "left"), layer(graph, two, "right")];
    const multiplied = layer(graph, sum(graph, left, right), "multiplied", true);
    const squares = mul(graph, multiplied, multiplied);
    const logit = linear(graph, squares, { name: "out", outputs: 1 });
    return { one, plain, two, multiplied, logit };
  });
  t.deepEqual(
    [one, plain, two, multiplied].map(({ isZeroed }) => isZeroed),
    [true, false, false, false],
  );
});

test("lookup vectors do not share gradient memory with a block", (t) => {
  const { x, total } = memoryOf((graph, x) => {
    const total = sum(graph, layer(graph, reshape(x, [3]), "l"), x);
    return { x, total, logit: linear(graph, total, { name: "out", outputs: 1 }) };
  });
  t.not(x.dOut, total.dOut);
});

test("the first reader of a value adds the gradients of the others, in their order", (t) => {
  const { x, total } = memoryOf((graph, x) => {
    const [first, squares] = [layer(graph, x, "l"), mul(graph, x, x)];
    const total = concatAdd(graph, [mul(graph, first, squares)], x);
    return { x, total, logit: linear(graph, total, { name: "out", outputs: 1 }) };
  });
  const [first, left, right, passed] = x.readers;
  t.is(first?.to, x.dOut);
  t.deepEqual(x.dParts, []);
  // The sum passes its gradient on unchanged, in the same memory.
  t.deepEqual(first?.others, [left?.to, right?.to, total.dOut]);
  t.is(passed?.to, undefined);
  t.is(new Set([x.dOut, left?.to, right?.to, total.dOut]).size, 4);
});

test("the network adds gradients where the first reader cannot", (t) => {
  const { x } = memoryOf((graph, x) => {
    const total = sum(graph, mul(graph, x, x), layer(graph, x, "l"));
    return { x, logit: linear(graph, total, { name: "out", outputs: 1 }) };
  });
  t.is(x.dParts.length, 3);
  t.true(x.readers.every(({ others }) => others.length === 0));
  const graph = new GraphBuilder(3);
  if (graph.dense === undefined) return t.fail();
  const dense = layer(graph, graph.dense, "first");
  const rows = graph.add({ inputs: [], shape: [3], hasLookups: true });
  // The layer over both waits for lookups, the one over the dense features does not.
  const late = graph.add({ inputs: [dense, rows], shape: [3], adds: true });
  const early = layer(graph, dense, "second");
  const logit = linear(graph, sum(graph, late, early), { name: "out", outputs: 1 });
  const made = gradientMemory(graph.finish(logit), ({ shape }) => kernels.tensor(shape));
  t.is(made[dense.node]?.dParts.length, 2);
});
