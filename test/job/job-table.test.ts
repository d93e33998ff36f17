// docs/jobs.md against the schema of a job: the table has each option once, with its default; and
// the jobs in the documents are valid.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { loadJob, loadSweep } from "../../cli/support/job-file.ts";
import { resolveJob } from "../../src/job/job.ts";
import { jobJsonSchema } from "../../src/job/job-json-schema.ts";
import { startDirectory } from "../data/data-files.ts";
import { wholeJobSchema } from "../helpers/job-json-schema.ts";
import { textOf } from "../helpers/tree.ts";

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly default?: unknown;
  readonly description?: string;
  readonly additionalProperties?: Schema | false;
}

/** The path and default of each option below `schema`: `tables[].dim`, and JSON or "required". */
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

/** Whether the entry is only a section, whose options have the defaults. */
function hasOptions({ properties, oneOf }: Schema): boolean {
  return properties !== undefined || oneOf?.some((branch) => branch.properties) === true;
}

function defaultOf(schema: Schema): string {
  return schema.default === undefined ? "none" : JSON.stringify(schema.default);
}

test("docs/jobs.md lists every option of a job, with its default", (t) => {
  const schema = wholeJobSchema() as Schema;
  const isRepeated = (option: string) => /^evaluation\.(test\.)?data\./.test(option);
  // A plan is a file written by `osiris plan`: readers of the table do not need its options.
  // `model.table` has the options of `model.tables[]`.
  const options = [...optionsOf(schema, "")].map((option) => {
    if (option.startsWith("plan.")) return "plan = none";
    return option.startsWith("model.table.") ? "model.table = none" : option;
  });
  const expected = [...new Set(options)].filter((option) => !isRepeated(option));
  const rows = textOf("docs/jobs.md").matchAll(/^\| `([^`]+)` \| (?:`([^`]*)`|(\w+)) \|/gm);
  const listed = [...rows].map(([, path, value, word]) => `${path} = ${value ?? word}`);
  t.deepEqual(listed.sort(), expected.sort());
});

/** The paths of options below `schema` without a description. */
function* undescribed(schema: Schema, path: string): Generator<string> {
  const { oneOf = [], anyOf = [], items, properties = {}, additionalProperties } = schema;
  for (const [name, inner] of Object.entries(properties)) {
    if ((inner.description ?? "").length < 10) yield `${path}.${name}`;
    yield* undescribed(inner, `${path}.${name}`);
  }
  for (const inner of [...oneOf, ...anyOf, items, additionalProperties]) {
    if (inner) yield* undescribed(inner, path);
  }
}

test("the JSON Schema has a description of every option of a job", (t) => {
  const schema = wholeJobSchema() as Schema;
  t.deepEqual([...new Set(undescribed(schema, "job"))], []);
  t.is(schema.properties?.stepDeadlineMs?.description?.includes("timeout"), true);
});

test("the job of docs/jobs.md is the same in YAML and TypeScript, and can be swept", async (t) => {
  const directory = startDirectory(t);
  const blockOf = (document: string, form: string) =>
    new RegExp(`^\`\`\`${form}\\n(.*?)^\`\`\``, "ms").exec(textOf(document))?.[1] ?? "";
  const fileOf = (name: string, text: string) => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };
  const yaml = blockOf("docs/jobs.md", "yaml");
  const job = resolveJob(await loadJob(fileOf("job.yaml", yaml)));
  const shorter = textOf("docs/jobs.md").matchAll(/^```yaml\n(name: clicks\n.*?)^```/gms);
  for (const [i, [, text = ""]] of [...shorter].entries()) {
    t.deepEqual(resolveJob(await loadJob(fileOf(`shorter-${i}.yaml`, text))), job);
  }
  const typed = fileOf("job.ts", blockOf("docs/jobs.md", "ts"));
  t.deepEqual(resolveJob(await loadJob(typed)), job);
  const base = yaml.replace(/^optimizer:\n.*\n/m, "");
  const swept = blockOf("docs/cli.md", "yaml").replace("model: ...", base);
  t.is((await loadSweep(fileOf("sweep.yaml", swept))).trials.length, 20);
});

test("the JSON Schema fits into a message of the job service", (t) => {
  // A broker accepts 1 MiB; the schemas of requests and events are in the same message.
  t.true(JSON.stringify(jobJsonSchema()).length < 2 ** 18);
});

test("by the JSON Schema, evaluation data may omit every inherited option", (t) => {
  const schema = wholeJobSchema() as Schema;
  t.true(schema.properties?.data?.oneOf?.every(({ required }) => required?.includes("batchSize")));
  const { data, test } = schema.properties?.evaluation?.properties ?? {};
  for (const held of [data?.oneOf ?? [], test?.properties?.data?.oneOf ?? []]) {
    t.is(held.length, 6);
    t.deepEqual(
      held.flatMap(({ required = [] }) => required),
      [],
    );
  }
});
