// Writes the proposed job as a TypeScript program: the job as an object with a reason beside each
// column, and a few lines that train it and load its model.

import type { AssignedColumn } from "./column-roles.ts";
import type { DataProfile } from "./profile-columns.ts";
import { type FirstJob, type FirstJobOptions, firstJobOf } from "./write-first-job.ts";

/**
 * The text of a program that trains `firstJob`'s job when it runs.
 * @throws InvalidOptionError, InputUnusableError where the label cannot be learned
 */
export function firstProgram(
  data: DataProfile,
  roles: readonly AssignedColumn[],
  options: FirstJobOptions = {},
): string {
  return firstProgramText(data, roles, firstJobOf(data, roles, options));
}

/** The program of a job from `firstJobOf`. */
export function firstProgramText(
  data: DataProfile,
  roles: readonly AssignedColumn[],
  { job, reasons }: FirstJob,
): string {
  const { directory } = job.checkpoint as { readonly directory: string };
  const whyOf = (column: string) => reasons.get(column);
  const rows = `${data.isWhole ? "all" : "the first"} ${data.rows} rows`;
  const left = roles.filter(({ role }) => role === "ignored");
  return [
    `// A first job, made by \`osiris init\` of ${rows}. Edit it as needed: docs/jobs.md has every`,
    "// option, and an editor completes options by their type.",
    ...left.map(({ profile, why }) => commented(`left out: ${profile.name} (${why})`)),
    "",
    'import { Cluster, type JobOptions, loadModel } from "osiris-train";',
    "",
    `const job: JobOptions = ${literal(job, whyOf)};`,
    ...training,
    `await using model = await loadModel(${JSON.stringify(directory)});`,
    'console.log("trained for", model.step, "steps");',
    "",
  ].join("\n");
}

const training = [
  "",
  "await using cluster = await Cluster.start({ devices: 2 });",
  "const run = await cluster.submit(job);",
  "for await (const event of run.events()) {",
  '  if (event.type !== "run.evaluated") continue;',
  "  const { auc, rmse } = event.metrics;",
  '  console.log("step", event.step, rmse === undefined ? "AUC" : "RMSE", rmse ?? auc);',
  "}",
  "const { digest } = await run.result();",
  "console.log(digest);",
  "",
  "// Predictions: `await model.predict([{ COLUMN: value, ... }])`, a record for each sample.",
];

/** A value as a TypeScript literal, one entry per line, with reasons as comments after columns. */
function literal(
  value: unknown,
  whyOf: (column: string) => string | undefined,
  indent = "",
): string {
  const flat = inOneLine(value);
  const isShort = flat.length + indent.length < 90;
  const isList = Array.isArray(value);
  const hasColumns = isList && value.some((one) => columnOf(one) !== undefined);
  if (typeof value !== "object" || value === null) return flat;
  if (isShort && indent !== "" && !hasColumns) return flat;
  const inner = `${indent}  `;
  const entries: [string, unknown][] = isList
    ? value.map((one) => ["", one])
    : Object.entries(value).map(([key, one]) => [`${keyOf(key)}: `, one]);
  const lines = entries.map(([key, one]) => {
    const column = isList ? columnOf(one) : key === "label: " ? String(one) : undefined;
    const why = column === undefined ? undefined : whyOf(column);
    const text = column === undefined ? literal(one, whyOf, inner) : inOneLine(one);
    return `${inner}${key}${text},${why === undefined ? "" : ` ${commented(why)}`}`;
  });
  if (lines.length === 0) return flat;
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  return [open, ...lines, `${indent}${close}`].join("\n");
}

/** A one-line comment; line breaks in names or values become spaces. */
function commented(text: string): string {
  return `// ${text.replace(/[\r\n\u2028\u2029]+/g, " ")}`;
}

function columnOf(value: unknown): string | undefined {
  return typeof value === "object" && value !== null && "column" in value
    ? String(value.column)
    : undefined;
}

function inOneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inOneLine).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, one]) => `${keyOf(key)}: ${inOneLine(one)}`);
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
}

function keyOf(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? key : JSON.stringify(key);
}
