// A custom model: its blocks make its graph, and each fault of its module is reported in one
// sentence before anything starts.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { type JobOptions, resolveJob } from "../../index.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { jobIdentity } from "../../src/job/job.ts";
import { withModel } from "../../src/job/job-files.ts";
import { graphOf } from "../../src/model/model.ts";
import { modelOptions } from "../../src/model/options.ts";
import { startDirectory } from "../data/data-files.ts";
import { modelHasGradients } from "../helpers/models/model-gradients.ts";
import { moduleOf, twoTowers } from "../helpers/models/own-models.ts";

const tables = ["a", "b"].map((name) => ({ name, rows: 9, dim: 4 }));

/** The job with a model of this module. */
function jobOf(path: string, model: object = {}): JobOptions {
  return {
    model: { kind: "custom", path, dense: 2, tables, ...model },
    data: { kind: "synthetic", dense: 2, samples: 10, batchSize: 2 },
  };
}

/** A module whose model takes all features and has this `build` body. */
const built = (body: string) => `const { sum, mul, dotProducts, linear, mlp, reshape, relu,
  layerNorm, sumOfVectors, slice, attention, crossLayers } = blocks;
export default defineModel({ build(graph, features) { ${body} } });`;

const top = '{ name: "top", widths: [3, 1] }';

const refusals: readonly (readonly [title: string, code: string, expected: string | RegExp])[] = [
  [
    "a module that does not compile",
    "export default = 3;",
    /to be a module that compiles; it does not: Unexpected token, line 2, column 16, got/,
  ],
  [
    "a module that waits",
    "export default await 3;",
    /to be a module that compiles; it does not: await/,
  ],
  [
    "a module that imports a file",
    'import { a } from "./a.ts"; export default a;',
    "to be one file that imports only `osiris-train` and `zod`, since the hash of its contents identifies the model; it imports `./a.ts`",
  ],
  ["a module that imports of Node", 'import "node:fs";', "the model; it imports `node:fs`"],
  ["a module that throws", "throw new Error('not today');", "that runs; it throws: not today"],
  ["a module without a default export", "export const a = 1;", "it has no default export"],
  ["a module with another default export", "export default { build() {} };", "it has another one"],
  ["a build that throws", built("throw new Error('no');"), "returns the logit; it throws: no"],
  [
    "a build that returns nothing",
    built("features.vectors();"),
    "it returns no value of the graph",
  ],
  [
    "a build that returns several numbers",
    built("return features.vectors();"),
    "it returns a value of the shape (2, 4), not one number",
  ],
  [
    "a build without a parameter",
    built("return slice(graph, reshape(features.dense, [1, 2]), { first: 0, count: 1 });"),
    "it never takes `a`",
  ],
  [
    "blocks of one name",
    built(
      `const x = mlp(graph, features.rows(), ${top}); return sum(graph, x, mlp(graph, features.dense, ${top}));`,
    ),
    "whose blocks have names of their own; two parameters are `top.0.weight`",
  ],
  [
    "a sum of two shapes",
    built("return sum(graph, features.vectors(), features.dense);"),
    "it throws: expected that both terms of a sum have one shape, got (2, 4) and (2)",
  ],
  [
    "another shape of fewer numbers",
    built("return reshape(features.vectors(), [1]);"),
    "it throws: expected that (1) has as many numbers, got (2, 4)",
  ],
  [
    "products of vectors of two widths",
    built("const x = features.vectors(); return dotProducts(graph, x, reshape(x, [4, 2]));"),
    "expected that both values have vectors of one width, got (2, 4) and (4, 2)",
  ],
  [
    "columns that are not there",
    built("return slice(graph, features.vectors(), { first: 3, count: 2 });"),
    "expected that there are vectors with columns 3 to 4, got (2, 4)",
  ],
  [
    "heads that share no columns",
    built('return attention(graph, features.vectors(), { name: "a", heads: 2, columns: 3 });'),
    "expected that 2 heads share 3 columns of the mix of some vectors, got (2, 4)",
  ],
  [
    "cross layers over vectors",
    built('return crossLayers(graph, features.vectors(), { name: "c", layers: 1 });'),
    "expected that cross layers take a row, got (2, 4)",
  ],
  [
    "a feature that is left",
    built(`return mlp(graph, features.rows({ of: ["a"] }), ${top});`),
    "to be a module that takes every feature; it never takes `b`",
  ],
  [
    "a feature that is taken twice",
    built("features.rows(); return features.vectors();"),
    "it throws: the feature `a` is taken twice: reuse the value that `vectors` or `rows` returned",
  ],
  [
    "a feature that is not there",
    built('return features.rows({ of: ["x"] });'),
    "it throws: there is no feature `x`; there are a, b",
  ],
  ["no feature", built("return features.rows({ of: [] });"), "`of` names no categorical feature"],
  [
    "a value of half a vector",
    built("return features.vectors({ first: features.dense });"),
    "it throws: `first` has 2 columns, no multiple of 4",
  ],
  [
    "a block that leads nowhere",
    built(
      `const x = features.rows(); linear(graph, x, { name: "left", outputs: 2 }); return mlp(graph, x, ${top});`,
    ),
    "whose blocks all lead to the logit; nothing reads the output of `left.weight`, (2)",
  ],
  [
    "a layer of no width",
    built('return mlp(graph, features.rows(), { name: "top", widths: [0, 1] });'),
    "whose values have numbers; one has the shape (0)",
  ],
  [
    "a graph that is another each time",
    `let n = 1; ${built('return mlp(graph, features.rows(), { name: "top", widths: [n++, 1] });')}`,
    "whose `build` makes the same graph each time it is called",
  ],
];

for (const [title, code, expected] of refusals) {
  test(`${title} is refused`, (t) => {
    const path = moduleOf(startDirectory(t), code);
    const error = t.throws(() => withModel(resolveJob(jobOf(path))), {
      instanceOf: InvalidOptionError,
    });
    t.is(error.option, "model.path");
    t.true(error.message.startsWith("Expected `model.path` to be "), error.message);
    t.true(error.message.endsWith(`, got \`${path}\` (string)`) || path.length > 60);
    if (typeof expected === "string") t.true(error.message.includes(expected), error.message);
    else t.regex(error.message, expected);
  });
}

test("a logit without trainable parameters is refused", (t) => {
  const path = moduleOf(startDirectory(t), built("return features.dense;"));
  const model = { kind: "custom", path, dense: 1, tables: [] };
  const data = { kind: "synthetic", dense: 1, samples: 10, batchSize: 2 };
  t.throws(() => withModel(resolveJob({ model, data })), { message: /one that cannot learn, got/ });
});

test("interactions of vectors require one width", (t) => {
  const path = moduleOf(startDirectory(t), built("return features.vectors();"));
  const own = [...tables, { name: "c", rows: 9, dim: 5 }];
  const check = (dim?: number) => withModel(resolveJob(jobOf(path, { tables: own, dim })));
  t.throws(() => check(), {
    message: /needs a `dim`, as the tables have several and the job none/,
  });
  t.throws(() => check(4), { message: /a value of the shape \(3, 4\)/ });
});

test("a missing file, or one that is no module, is refused", (t) => {
  const directory = startDirectory(t);
  writeFileSync(join(directory, "model.py"), "");
  const errorOf = (name: string) =>
    t.throws(() => withModel(resolveJob(jobOf(join(directory, name)))), {
      instanceOf: InvalidOptionError,
    }).message;
  t.regex(errorOf("model.py"), /to be a module, a file that ends in \.ts, \.mts, \.js, \.mjs, got/);
  t.regex(errorOf("none.ts"), /to be a module that can be read \(ENOENT: /);
});

test("options are checked by the module's own schema, and named like the job's", (t) => {
  const { path } = twoTowers;
  const refused = (options: object) =>
    t.throws(() => withModel(resolveJob(jobOf(path, { options }))), {
      instanceOf: InvalidOptionError,
    });
  const wrong = refused({ user: ["a"], item: "b", widths: [8, 0] });
  t.deepEqual(
    wrong.problems.map(({ option }) => option),
    ["model.options.item", "model.options.widths[1]"],
  );
  t.regex(refused({ user: ["a"], item: ["b"], width: [8] }).message, /did you mean `widths`\?/);
  const plain = moduleOf(startDirectory(t), built(`return mlp(graph, features.rows(), ${top});`));
  const given = { options: { a: 1 } };
  t.throws(() => withModel(resolveJob(jobOf(plain, given))), {
    message: /Expected no option `model.options.a`/,
  });
});

test("the identity of a model is its module's contents, not its path", (t) => {
  const directory = startDirectory(t);
  const code = built(`return mlp(graph, features.rows(), ${top});`);
  const [one, same] = [moduleOf(directory, code), moduleOf(directory, code, "same.js")];
  const other = moduleOf(directory, `${code} // changed`, "other.ts");
  const identityOf = (path: string) => jobIdentity(withModel(resolveJob(jobOf(path))));
  t.is(identityOf(one), identityOf(same));
  t.not(identityOf(one), identityOf(other));
  const { model } = withModel(resolveJob(jobOf(one)));
  moduleOf(directory, `${code} // changed`);
  const error = t.throws(() => graphOf(model), { instanceOf: InvalidOptionError });
  t.regex(
    error.message,
    /to be the module that the job began with, whose contents have the SHA-256/,
  );
});

test("blocks composed like a DLRM make the graph of a DLRM", (t) => {
  const path = moduleOf(
    startDirectory(t),
    `import { z } from "zod";
    export default defineModel({
      options: z.strictObject({ bottom: z.array(z.int()), top: z.array(z.int()) }),
      build(graph, features, { bottom, top }) {
        const first = blocks.mlp(graph, features.dense!, { name: "bottom", widths: bottom, reluLast: true });
        const x = features.vectors({ first });
        const [vectors, dim] = x.shape as [number, number];
        const seen = blocks.interaction(graph, x, { vectors, dim, copied: 1 });
        return blocks.mlp(graph, seen, { name: "top", widths: top });
      },
    });`,
  );
  const layers = { bottom: [5, 4], top: [6, 1] };
  const shared = { dense: 2, tables };
  const own = graphOf(modelOptions.parse({ kind: "custom", path, ...shared, options: layers }));
  const dlrm = graphOf(modelOptions.parse({ kind: "dlrm", ...shared, ...layers }));
  const textOf = ({ layout, places, products }: typeof own) =>
    JSON.stringify([layout, places.map(({ column }) => column), products]);
  t.is(textOf(own), textOf(dlrm));
});

/** A BST of two blocks, and a second task that weights the sequence. */
const ofSequences = `export default defineModel({
  build(graph, features) {
    const [target, seen] = [features.vectors({ of: ["a"] }), features.sequence("seen")];
    const vector = blocks.reshape(target, [4]);
    const own = { blocks: 1, heads: 2, hidden: 3, pooling: "mean", dropout: 0 };
    const mixed = blocks.behaviorTransformer(graph, vector, seen, { name: "t", ...own });
    const weighed = blocks.targetAttention(graph, vector, seen, { name: "w", hidden: [3] });
    const x = blocks.concat(graph, [features.dense, features.rows({ of: ["b"] }), mixed, weighed]);
    return blocks.mlp(graph, x, { name: "top", widths: [5, Math.max(1, features.tasks.length)] });
  },
});`;

test("a module may take sequences, and have a logit for each of several tasks", (t) => {
  const path = moduleOf(startDirectory(t), ofSequences);
  const features = [
    { column: "a" },
    { column: "b" },
    { column: "seen", table: "a", pooling: "none", maxLength: 3 },
  ] as const;
  const model = { kind: "custom", path, dense: 2, tables, features } as const;
  modelHasGradients(t, model);
  const tasks = [{ name: "label" }, { name: "label2", weight: 0.5 }];
  modelHasGradients(t, { ...model, tasks });
  const data = { kind: "synthetic", dense: 2, samples: 10, batchSize: 2, labels: 2 } as const;
  t.notThrows(() => withModel(resolveJob({ model: { ...model, tasks }, data })));
  const refused = (own: object, all: object = {}) =>
    t.throws(() =>
      withModel(resolveJob({ model: { ...model, ...own }, data: { ...data, ...all } })),
    );
  t.regex(refused({}).message, /`data.labels` to be one label, as `model.tasks` is left out, got/);
  t.regex(
    refused({ tasks: tasks.map(() => ({ name: "label" })) }).message,
    /`model.tasks\[1\].name` to be a name that no other task has/,
  );
  const single = moduleOf(startDirectory(t), built(`return mlp(graph, features.rows(), ${top});`));
  t.regex(
    refused({ path: single, features: undefined, tasks }).message,
    /it returns a value of the shape \(1\), not 2 numbers, one for each task/,
  );
  const pooled = moduleOf(startDirectory(t), built('return features.sequence("a").vectors;'));
  t.regex(
    refused({ path: pooled, tasks }).message,
    /the feature `a` is no sequence: its `pooling` is not "none"/,
  );
});

test("the example module has the gradients of the loss", (t) => {
  modelHasGradients(t, { ...twoTowers, options: { ...twoTowers.options, dropout: 0 } });
});
