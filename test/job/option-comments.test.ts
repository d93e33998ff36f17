// The types of the package describe each option, so that an editor shows the description
// (option-comments.js, which runs when a package is built).

import test from "ava";
import * as data from "../../src/data/options.ts";
import { describeKinds } from "../../src/job/job-json-schema.ts";
import { jobSchema } from "../../src/job/job-schema.ts";
import { modelOptions } from "../../src/model/options.ts";
import { checkpointOptions } from "../../src/training/checkpoint/checkpoint-options.ts";
import { packageTypes, testIf } from "../helpers/needs.ts";
import { textOf } from "../helpers/tree.ts";

const script = new URL("../../../option-comments.js", import.meta.url).href;

/** Adds comments to declarations, as a package build does. */
async function commented(text: string, schemas: object): Promise<string> {
  const { commented: make } = (await import(script)) as {
    commented(text: string, schemas: object, kinds: typeof describeKinds): string;
  };
  return make(text, schemas, describeKinds);
}

/** Options without a comment on the line before them. */
function bare(text: string): string[] {
  const lines = text.split("\n");
  return lines.filter(
    (line, i) => /^\s*readonly \w+\??:/.test(line) && lines[i - 1]?.endsWith("*/") !== true,
  );
}

test("types derived from schemas are written out, with a comment on every option", async (t) => {
  const { csvOptions, dataOptions, syntheticOptions } = data;
  const of = { checkpointOptions, modelOptions, csvOptions, dataOptions, syntheticOptions };
  const text = await commented(
    `export type A = z.input<typeof checkpointOptions>;
export type B = Written<z.input<typeof csvOptions>>;
export type ModelOptions = {
    [Name in KindName]: ModelOptionsOf<(typeof kinds)[Name]["options"]>;
}[KindName];
export type D = Written<z.input<typeof dataOptions>>;
export type E = Omit<z.input<typeof checkpointOptions>, "partial" | "keep">;
export type F = z.input<typeof unknownOptions>;`,
    of,
  );
  t.deepEqual(bare(text), []);
  t.regex(text, /\* Number of steps between two checkpoints[^*]*\n\s*\* @default \d+/);
  t.regex(text, /readonly label: string \| readonly \(string\)\[\];/);
  t.regex(text, /readonly kind: "dlrm";/);
  t.regex(text, /F = z\.input<typeof unknownOptions>/);
  const [, e = ""] = /type E = (\{[\s\S]*?\n\})/.exec(text) ?? [];
  t.false(/partial|readonly keep/.test(e));
});

test("the options of a job have comments in all of its sections", async (t) => {
  const text = await commented(
    `export type JobOptions = Written<Omit<z.input<typeof jobSchema>, "model" | "data">> & {
    /** The model. */
    readonly model: ModelOptions;
};
export type A = HeldOut<Omit<z.input<typeof jobSchema>, "model" | "data" | "evaluation">>;`,
    { jobSchema, modelOptions },
  );
  t.deepEqual(bare(text), []);
  t.regex(text, /The update rule of the dense layers/);
  t.regex(text, /Most restores within[\s\S]*readonly restartsMax\?: number \| undefined;/);
  t.regex(text, /^\} & \{\n {4}\/\*\* The model\. \*\/\n {4}readonly model: ModelOptions;$/m);
  t.regex(text, /export type A = HeldOut<\{\n[\s\S]*\n\}>;$/);
});

test("the functions of model kinds take options with comments", async (t) => {
  const text = await commented(
    `/** A. */
export declare const lr: (options: Omit<{
    dense: number;
}, "kind">) => unknown;
/** B. */
export declare const din: (options: Omit<X, "kind">) => X;
`,
    { modelOptions },
  );
  t.deepEqual(bare(text), []);
  t.regex(text, /^export declare const lr: \(options: \{\n {4}\/\*\*\n/m);
  t.regex(
    text,
    /\}\) => Extract<import\("\.\/options\.ts"\)\.ModelOptions, \{ kind: "din" \}>;\n$/,
  );
  t.false(text.includes("Omit<"));
});

testIf(packageTypes)("in a package, every option of the exported types has a comment", (t) => {
  const types = {
    "src/job/job": ["JobOptions"],
    "src/job/evaluation-options": ["EvaluationOptions"],
    "src/data/options": ["CsvOptions", "ParquetOptions", "SyntheticOptions"],
    "src/model/options": ["ModelOptions"],
    "src/embedding/tables/options": ["TableOptions", "SparseOptimizerOptions"],
  };
  for (const [file, names] of Object.entries(types)) {
    const text = textOf(`dist/${file}.d.ts`);
    for (const name of names) {
      const all =
        new RegExp(`export (?:type|interface) ${name} [\\s\\S]*?\\n\\}`).exec(text)?.[0] ?? "";
      t.true(all.split("\n").length > 5, name);
      t.deepEqual(bare(all), [], name);
    }
  }
});
