// The module of a cost network, for `model: { kind: "custom", path, options }`. `set`: one MLP maps
// the features of each table of a set to a vector, the vectors are added up, and another MLP maps
// the sum to one number, so that the order of the tables does not matter (NeuroShard: Zha et al.,
// MLSys 2023, section 3.2). `mlp`: maps the inputs of all devices to a number for each task.
//
// T = maximum tables of a set, X = features of a table. Dense features of `set`: T X numbers,
// padded with zeros, then a mask of T numbers: 1 for a table, 0 for padding.

import { blocks, defineModel } from "osiris-train";
import { z } from "zod";

const { slice, linear, mlp, mul, repeatColumns, reshape, sumOfVectors } = blocks;

const widths = z.array(z.int().min(1)).min(1);

export default defineModel({
  options: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("set"), tables: z.int().min(1), table: widths, head: widths }),
    z.strictObject({ kind: z.literal("mlp"), layers: widths }),
  ]),

  build(graph, { dense }, options) {
    if (dense === undefined) throw new Error("a cost network has dense features");
    if (options.kind === "mlp") {
      return mlp(graph, dense, { name: "layers", widths: options.layers });
    }
    const { tables, table, head } = options;
    const [all = 0] = dense.shape;
    const numbers = all - tables;
    const row = reshape(dense, [1, all]);
    const given = slice(graph, row, { first: 0, count: numbers });
    const present = slice(graph, row, { first: numbers, count: tables });
    let vectors = reshape(given, [tables, numbers / tables]);
    for (const [i, outputs] of table.entries()) {
      vectors = linear(graph, vectors, { name: `table.${i}`, outputs, relu: true });
    }
    const columns = table.at(-1) ?? 0;
    const mask = repeatColumns(graph, reshape(present, [tables]), columns);
    const sum = sumOfVectors(graph, mul(graph, vectors, mask));
    return mlp(graph, reshape(sum, [columns]), { name: "head", widths: head });
  },
});
