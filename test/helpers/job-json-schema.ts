// The JSON Schema of a job with all `$ref`s resolved.

import { jobJsonSchema } from "../../src/job/job-json-schema.ts";

/** `jobJsonSchema()` without references: keywords beside a `$ref` override those of its target. */
export function wholeJobSchema(): unknown {
  const { $defs: parts = {}, ...schema } = jobJsonSchema();
  const whole = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(whole);
    if (value === null || typeof value !== "object") return value;
    const { $ref, ...own } = value as { readonly $ref?: string };
    const part = $ref === undefined ? {} : whole(parts[$ref.replace("#/$defs/", "")]);
    const entries = Object.entries(own).map(([name, inner]) => [name, whole(inner)]);
    return { ...(part as object), ...Object.fromEntries(entries) };
  };
  return whole(schema);
}
