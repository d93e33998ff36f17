// The JSON Schema of a job, for editors and for programs in any language: made of the schemas that
// check it, whose `describe` has the sentence of each option.

import { z } from "zod";
import { tableOptions } from "../embedding/tables/options.ts";
import { isSection } from "../ports/written.ts";
import { jobSchema } from "./job.ts";

/** The options that a user may write, as JSON Schema, made from the schemas that check them. */
export function jobJsonSchema() {
  const schema = z.toJSONSchema(jobSchema, {
    io: "input",
    unrepresentable: "any",
    override({ zodSchema, jsonSchema }) {
      // `model.table` says the other fields.
      if (zodSchema === tableOptions) jsonSchema.required = ["name"];
    },
  });
  // Evaluation data inherit what they leave out, before the schema checks them.
  type Schema = typeof schema;
  const evaluation = schema.properties?.evaluation as Schema | undefined;
  const test = evaluation?.properties?.test as Schema | undefined;
  for (const section of [evaluation, test]) {
    const data = section?.properties?.data as Schema | undefined;
    for (const kind of data?.oneOf ?? []) delete kind.required;
  }
  describeKinds(schema);
  return schema;
}

/** Describes the constant that names each branch of a union: all other options have their own. */
export function describeKinds(schema: z.core.JSONSchema.BaseSchema): void {
  const { oneOf = [], anyOf = [], items, properties = {}, additionalProperties } = schema;
  for (const branch of oneOf) {
    const named = Object.entries(branch.properties ?? {}).find(
      ([name, own]) => (name === "kind" || name === "op") && isSection(own) && "const" in own,
    );
    const constant = named?.[1] as { const: string; description?: string } | undefined;
    if (constant === undefined) continue;
    constant.description = `\`${constant.const}\`, one of ${oneOf.length}: it says which options stand beside it.`;
  }
  const within = [...oneOf, ...anyOf, items, additionalProperties, ...Object.values(properties)];
  for (const inner of within) if (isSection(inner)) describeKinds(inner);
}
