// A custom model with two towers: one MLP over the features of the user, one over those of the
// item, and their dot product as the logit, so that items can be retrieved by nearest-neighbour
// search.
//
//   model:
//     kind: custom
//     path: two-towers.ts
//     options: { user: [user, country], item: [item, shop] }
//
// examples/two-towers.yaml is a complete job: osiris train examples/two-towers.yaml

import { blocks, defineModel, type GraphValue } from "osiris-train";
import { z } from "zod";

const { bias, dotProducts, mlp, reshape } = blocks;

export default defineModel({
  options: z.strictObject({
    /** Features of each tower; the dense features belong to the user tower. */
    user: z.array(z.string()).min(1),
    item: z.array(z.string()).min(1),
    /** Layer widths of both MLPs. */
    widths: z.array(z.int().min(1)).min(1).default([64, 32]),
    dropout: z.number().min(0).max(0.9).default(0),
  }),

  build(graph, features, { user, item, widths, dropout }) {
    const tower = (name: string, of: readonly string[], first?: GraphValue) => {
      const rows = features.rows({ of, ...(first && { first }) });
      const top = mlp(graph, rows, { name, widths, dropout });
      return reshape(top, [1, ...top.shape]);
    };
    const score = dotProducts(graph, tower("user", user, features.dense), tower("item", item));
    return bias(graph, reshape(score, [1]), "bias");
  },
});
