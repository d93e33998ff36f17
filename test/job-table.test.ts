// docs/jobs.md against the schema of a job: each option stands there once, with its default.

import test from "ava";
import { jobJsonSchema } from "../src/job.ts";
import { textOf } from "./helpers/tree.ts";

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly default?: unknown;
}

/** Path and default of each option below `schema`: `tables[].dim`, and JSON or "required". */
function* optionsOf(schema: Schema, path: string): Generator<string> {
  for (const branch of [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])]) {
    yield* optionsOf(branch, path);
  }
  if (schema.items !== undefined) yield* optionsOf(schema.items, `${path}[]`);
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    const at = path === "" ? name : `${path}.${name}`;
    const isRequired = schema.required?.includes(name) === true;
    if (!hasOptions(inner)) yield `${at} = ${isRequired ? "required" : defaultOf(inner)}`;
    yield* optionsOf(inner, at);
  }
}

/** Whether the entry is only a section: the options in it have the defaults. */
function hasOptions({ properties, oneOf }: Schema): boolean {
  return properties !== undefined || oneOf?.some((branch) => branch.properties) === true;
}

function defaultOf(schema: Schema): string {
  return schema.default === undefined ? "none" : JSON.stringify(schema.default);
}

test("docs/jobs.md lists every option of a job, with its default", (t) => {
  const schema = jobJsonSchema() as Schema;
  const isRepeated = (option: string) => option.startsWith("evaluation.data");
  // A plan is a file that `osiris plan` writes: nobody reads here what stands in it.
  const options = [...optionsOf(schema, "")].map((option) => {
    return option.startsWith("plan.") ? "plan = none" : option;
  });
  const expected = [...new Set(options)].filter((option) => !isRepeated(option));
  const rows = textOf("docs/jobs.md").matchAll(/^\| `([^`]+)` \| (?:`([^`]*)`|(\w+)) \|/gm);
  const listed = [...rows].map(([, path, value, word]) => `${path} = ${value ?? word}`);
  t.deepEqual(listed.sort(), expected.sort());
});
