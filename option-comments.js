// Writes the descriptions of options into the package's types, so that an editor shows them where
// an option is written. The schemas have the descriptions (`describe`), which the compiler drops
// from the types that it infers. In the declarations in dist/, this program replaces each type that
// is inferred from a schema by the same type, written out with a comment on every option.

import { readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";

/** The declarations with inferred types, below dist/. */
const declarations = [
  "src/data/options",
  "src/embedding/tables/options",
  "src/job/evaluation-options",
  "src/job/job",
  "src/model/model-builders",
  "src/model/options",
];

/** Rewrites the declarations in dist/, which the compiler has just made. */
export async function writeOptionComments() {
  const load = (name) => import(new URL(`dist/${name}.js`, import.meta.url));
  const { describeKinds } = await load("src/job/job-json-schema");
  const { modelOptions } = await load("src/model/options");
  const { jobSchema } = await load("src/job/job-schema");
  for (const name of declarations) {
    const path = new URL(`dist/${name}.d.ts`, import.meta.url);
    const schemas = { modelOptions, jobSchema, ...(await load(name)) };
    writeFileSync(path, commented(readFileSync(path, "utf8"), schemas, describeKinds));
  }
}

/** Returns the text of declarations with the types of `schemas` written out. */
export function commented(text, schemas, describeKinds) {
  const jsonSchemaOf = (schema) => {
    const json = jsonSchema(schema);
    describeKinds(json);
    return json;
  };
  const isKnown = (name) => schemas[name] !== undefined;
  const of = (name, leftOut = "") =>
    typeOf(jsonSchemaOf(schemas[name]), leftOut.match(/\w+/g) ?? [], "");
  const kinds = schemas.modelOptions === undefined ? [] : jsonSchemaOf(schemas.modelOptions).oneOf;
  return text
    .replace(/(?<=^export declare const )(\w+): \(options: [\s\S]*?(?=\n\/\*\* |\n*$(?!\n))/gm, (all, kind) => {
      const model = kinds.find(({ properties }) => properties.kind.const === kind);
      if (model === undefined) return all;
      const built = `Extract<import("./options.ts").ModelOptions, { kind: "${kind}" }>`;
      return `${kind}: (options: ${typeOf(model, ["kind"], "")}) => ${built};`;
    })
    .replace(
      /(Written<)?Omit<z\.input<typeof (\w+)>, ((?:"\w+"(?: \| )?)+)>(>?)/g,
      (all, written, name, names, end) =>
        isKnown(name) ? of(name, names) + (written === undefined ? end : "") : all,
    )
    .replace(/(Written<)?z\.input<typeof (\w+)>(>?)/g, (all, written, name, end) =>
      isKnown(name) ? of(name) + (written === undefined ? end : "") : all,
    )
    .replace(/(?<=^export type ModelOptions = )[\s\S]*?(?=;\n(?:\/\*\*|export))/m, (all) =>
      isKnown("modelOptions") ? of("modelOptions") : all,
    );
}

/** The JSON Schema of a user's input. A table requires only `name`, as `table` has the rest. */
function jsonSchema(schema) {
  return z.toJSONSchema(schema, {
    io: "input",
    unrepresentable: "any",
    override({ path, jsonSchema }) {
      const isTable = path.includes("tables") && jsonSchema.properties?.rowBlocks !== undefined;
      if (isTable) jsonSchema.required = ["name"];
    },
  });
}

/** The TypeScript type of a schema, on lines that begin with `indent`. */
function typeOf(schema, leftOut, indent) {
  const { const: constant, enum: values, oneOf, anyOf, type, items, prefixItems } = schema;
  const inner = (one) => typeOf(one, leftOut, indent);
  if (constant !== undefined) return JSON.stringify(constant);
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (oneOf ?? anyOf) return [...new Set((oneOf ?? anyOf).map(inner))].join(" | ");
  if (prefixItems !== undefined) return inner({ type, items: { anyOf: prefixItems } }); // As `Written`.
  if (type === "array") return `readonly (${inner(items ?? {})})[]`;
  if (type === "object") return objectOf(schema, leftOut, indent);
  if (type === "integer") return "number";
  return ["string", "number", "boolean", "null"].includes(type) ? type : "unknown";
}

function objectOf({ properties, required = [], additionalProperties }, leftOut, indent) {
  if (properties === undefined) {
    return `{ readonly [name: string]: ${typeOf(additionalProperties || {}, [], indent)} }`;
  }
  const within = `${indent}    `;
  const lines = Object.entries(properties).map(([name, schema]) => {
    if (leftOut.includes(name)) return "";
    const isNeeded = required.includes(name);
    const type = typeOf(schema, [], within) + (isNeeded ? "" : " | undefined");
    const { const: kind, description = `\`${kind}\`: it says which options stand beside it.` } = schema;
    const comment = commentOf(description, within, schema.default);
    return `${comment}${within}readonly ${name}${isNeeded ? "" : "?"}: ${type};\n`;
  });
  return `{\n${lines.join("")}${indent}}`;
}

/** A doc comment, with the default where it is a constant. */
function commentOf(description, indent, usual) {
  if (description === undefined) return "";
  const isPlain = ["string", "number", "boolean"].includes(typeof usual);
  const ending = isPlain ? `\n${indent} * @default ${JSON.stringify(usual)}` : "";
  return `${indent}/**\n${indent} * ${description.replaceAll("*/", "* /")}${ending}\n${indent} */\n`;
}
