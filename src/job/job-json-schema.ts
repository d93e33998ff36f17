// The JSON Schema of a job, for editors and for programs in any language. It is generated from the
// schemas that check a job; their `describe` has the sentence of each option. A section that
// several options share is written once, below `$defs`, so that the schema fits into a message of
// the job service.

import { z } from "zod";
import { tableOptions } from "../embedding/tables/options.ts";
import { isSection } from "../ports/written.ts";
import { jobSchema } from "./job-schema.ts";

type Schema = z.core.JSONSchema.BaseSchema;

/** Returns the JSON Schema of the options that a user may write. */
export function jobJsonSchema() {
  const schema = z.toJSONSchema(jobSchema, {
    io: "input",
    unrepresentable: "any",
    reused: "ref",
    override({ zodSchema, jsonSchema }) {
      // The other fields may come from `model.table`.
      if (zodSchema === tableOptions) jsonSchema.required = ["name"];
    },
  });
  const parts = (schema.$defs ?? {}) as Record<string, Schema>;
  /**
   * Merges a section with the part that it refers to. Fields beside the reference take precedence.
   */
  const resolved = ({ $ref, ...own }: Schema): Schema => {
    const part = $ref === undefined ? undefined : parts[$ref.replace("#/$defs/", "")];
    return part === undefined ? own : { ...resolved(part), ...own };
  };
  const within = (section: Schema, name: string) =>
    resolved((section.properties?.[name] ?? {}) as Schema);
  // Evaluation data inherit the options that they leave out before the schema checks them.
  const evaluation = within(schema, "evaluation");
  for (const section of [evaluation, within(evaluation, "test")]) {
    const data = within(section, "data");
    const kinds = (data.oneOf ?? []).map((kind) => {
      const { required: _required, ...inherited } = resolved(kind as Schema);
      return inherited;
    });
    if (section.properties !== undefined) section.properties.data = { ...data, oneOf: kinds };
  }
  for (const part of [schema, ...Object.values(parts)]) describeKinds(part, resolved);
  return schema;
}

/**
 * Adds a description to the constant that names each branch of a union; all other options have one.
 */
export function describeKinds(
  schema: Schema,
  resolved: (schema: Schema) => Schema = (inner) => inner,
): void {
  const { oneOf = [], anyOf = [], items, properties = {}, additionalProperties } = schema;
  for (const branch of oneOf) {
    const properties = Object.entries(resolved(branch).properties ?? {});
    for (const [name, own] of properties) {
      if ((name !== "kind" && name !== "op") || !isSection(own)) continue;
      const { const: constant } = resolved(own);
      if (constant === undefined) continue;
      own.description = `\`${constant}\`, one of ${oneOf.length}: it says which options stand beside it.`;
    }
  }
  const within = [...oneOf, ...anyOf, items, additionalProperties, ...Object.values(properties)];
  for (const inner of within) if (isSection(inner)) describeKinds(inner, resolved);
}
