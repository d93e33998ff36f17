// A first job for somebody's data, as a YAML file with a reason behind each column: a DLRM of a
// size that the data have samples for, which trains at once and is meant to be changed.

import { extname } from "node:path";
import { Document, isMap, isScalar, isSeq } from "yaml";
import { shownPath } from "../../src/data/remote/addresses.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { resolveJob } from "../../src/job/job.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { AssignedColumn } from "./column-roles.ts";
import type { ColumnProfile, DataProfile } from "./profile-columns.ts";

/** Columns of a row of every table. */
const dim = 16;
/** Rows of a table, at least and at most. */
const [rowsMin, rowsMax] = [16, 2 ** 20];
/** Texts that stand for the positive class of a label. */
const positives = ["1", "true", "yes", "y", "click", "clicked", "positive", "pos", "t"];

/** What becomes of a label with two values that are no 0 and 1. */
export interface FirstJobOptions {
  readonly name?: string | undefined;
  /** The label of the positive class. */
  readonly positive?: string | undefined;
}

/**
 * The text of a job file, checked as a submitted job is.
 * @throws InvalidOptionError, InputUnusableError where the label cannot be learned
 */
export function firstJob(
  data: DataProfile,
  roles: readonly AssignedColumn[],
  options: FirstJobOptions = {},
): string {
  const document = new Document(firstJobOptions(data, roles, options));
  document.commentBefore =
    ` A first job, made by \`osiris init\` of ${data.isWhole ? "all" : "the first"} ` +
    `${data.rows} rows. Change what you know better;\n docs/jobs.md has every option, and ` +
    "`osiris train FILE` trains it.";
  explain(document, roles);
  return document.toString({ lineWidth: 100 });
}

/**
 * The job, checked as a submitted one is.
 * @throws as `firstJob`
 */
export function firstJobOptions(
  data: DataProfile,
  roles: readonly AssignedColumn[],
  options: FirstJobOptions,
): Readonly<Record<string, object | string>> {
  const ofRole = (role: AssignedColumn["role"]) => roles.filter((one) => one.role === role);
  const [label] = ofRole("label");
  if (label === undefined) throw new RangeError("Expected a label");
  const [dense, categorical, [time]] = [ofRole("dense"), ofRole("categorical"), ofRole("time")];
  const name = options.name ?? nameOf(data.files[0] ?? "data");
  const batchSize = batchOf(data.rows);
  const target = targetOf(data, label.profile, options.positive);
  const stepsPerEpoch = Math.ceil(data.rows / batchSize);
  const job = {
    name,
    model: {
      kind: "dlrm",
      dense: dense.length,
      tables: categorical.map(({ profile }) => ({
        name: profile.name,
        rows: tableRows(profile),
        dim,
      })),
      bottom: dense.length > 0 ? [64, dim] : [],
      top: [64, 32, 1],
    },
    data: {
      kind: data.kind === "tsv" ? "csv" : data.kind,
      paths: data.files.map(shownPath),
      ...(data.kind === "tsv" ? { delimiter: "\t" } : {}),
      ...(data.kind === "criteo-tsv"
        ? {}
        : {
            label: label.profile.name,
            ...target.data,
            dense: dense.map(({ profile }) => denseColumn(profile)),
            categorical: categorical.map(({ profile }) => idColumn(profile)),
          }),
      batchSize,
      epochs: 3,
    },
    ...target.job,
    optimizer: {
      dense: { kind: "adam", learningRate: 0.001 },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.05 },
    },
    evaluation: {
      fraction: 0.1,
      ...(time === undefined ? {} : { split: { kind: "time", column: time.profile.name } }),
    },
    checkpoint: { directory: `checkpoints/${name}`, everySteps: Math.max(20, stepsPerEpoch) },
  };
  resolveJob(job);
  return job;
}

/** Writes the reasons behind the columns, each column on a line. */
function explain(document: Document, roles: readonly AssignedColumn[]): void {
  const whyOf = (name: string) => ` ${roles.find(({ profile }) => profile.name === name)?.why}`;
  const inOneLine = (path: readonly string[]) => {
    const list = document.getIn(path);
    if (isSeq(list)) list.flow = true;
  };
  for (const path of [
    ["model", "bottom"],
    ["model", "top"],
    ["data", "paths"],
  ])
    inOneLine(path);
  for (const path of [
    ["model", "tables"],
    ["data", "dense"],
    ["data", "categorical"],
  ]) {
    const list = document.getIn(path);
    if (!isSeq(list)) continue;
    for (const node of list.items) {
      if (!isMap(node)) continue;
      node.flow = true;
      if (path[0] === "data") node.comment = whyOf(String(node.get("column")));
    }
  }
  for (const section of ["optimizer", "evaluation", "checkpoint"]) {
    const part = document.get(section);
    if (!isMap(part)) continue;
    for (const { value } of part.items) if (isMap(value)) value.flow = true;
  }
  const label = document.getIn(["data", "label"], true);
  if (isScalar(label)) label.comment = whyOf(String(label.value));
  const left = roles.filter(({ role }) => role === "ignored");
  const data = document.get("data");
  if (left.length === 0 || !isMap(data)) return;
  data.comment = left.map(({ profile, why }) => ` left out: ${profile.name} (${why})`).join("\n");
}

/** The label: two classes, or numbers. */
function targetOf(
  { files: [file = ""] }: DataProfile,
  profile: ColumnProfile,
  positive: string | undefined,
): { readonly data: object; readonly job: object } {
  const { name, values, distinct, texts, missing } = profile;
  if (positive !== undefined && !values.includes(positive)) {
    const known = values.length > 0 ? values.join(", ") : `${distinct} different ones`;
    throw expected("positive", `one of the values of \`${name}\`, ${known}`, positive);
  }
  if (missing > 0) {
    const message = `The label \`${name}\` of ${file} has no value in ${missing} rows; expected one in each`;
    throw new InputUnusableError(file, message);
  }
  if (positive !== undefined) return { data: { positive }, job: {} };
  if (distinct === 2) {
    const plain = ["0,1", "-1,1", "false,true"].includes([...values].sort().join());
    if (plain) return { data: {}, job: {} };
    const found = values.filter((value) => positives.includes(value.toLowerCase()));
    const [only] = found;
    if (found.length === 1 && only !== undefined) return { data: { positive: only }, job: {} };
  }
  if (texts === 0 && distinct > 2) return { data: {}, job: { loss: { kind: "mse" } } };
  const message =
    `The label \`${name}\` of ${file} has the values ${values.join(", ") || "of text"}: ` +
    "say with `--positive` which of them is the positive class";
  throw new InputUnusableError(file, message);
}

/** Numbers that spread over orders of magnitude are taken by their logarithm. */
function denseColumn({ name, min, max, texts }: ColumnProfile) {
  const log = min >= 0 && max > 100;
  if (!log && texts === 0) return { column: name };
  return {
    column: name,
    ...(log ? { log: true } : {}),
    ...(texts > 0 ? { unreadable: "missing" } : {}),
  };
}

function idColumn({ name, form, separator }: ColumnProfile) {
  if (form === "list") return { column: name, list: "plain" };
  if (form === "map") return { column: name, list: "weighted" };
  return separator === undefined ? { column: name } : { column: name, separator };
}

/** Twice as many rows as ids, so that few of them share one. */
function tableRows({ distinct }: ColumnProfile): number {
  return Math.min(rowsMax, Math.max(rowsMin, 2 ** Math.ceil(Math.log2(2 * distinct))));
}

function batchOf(rows: number): number {
  return Math.min(2048, Math.max(16, 2 ** Math.floor(Math.log2(rows / 64))));
}

function nameOf(path: string): string {
  const file = shownPath(path).split("/").at(-1) ?? "data";
  const bare = file.replace(/\.gz$/, "");
  return bare.slice(0, bare.length - extname(bare).length).replace(/[^\w-]+/g, "-") || "data";
}
