// Proposes a job for a user's data, as a YAML file with a reason beside each column. The model is a
// DCN v2 of moderate size: the job trains as it is, and is meant to be edited. The last layer of a
// DCN v2 reads all embedding vectors directly, so that it learns at least as much as logistic
// regression. The top MLP of a DLRM reads only dot products of vectors, and does not learn the
// effect of a single id from a few thousand samples.

import { basename, extname } from "node:path";
import { Document, isMap, isScalar, isSeq } from "yaml";
import {
  expected,
  InputUnusableError,
  isPattern,
  resolveJob,
  shownPath,
} from "../../../internal.ts";
import { type AssignedColumn, positiveOf } from "./column-roles.ts";
import type { ColumnProfile } from "./column-tally.ts";
import { dim, type EncodedColumn, encodeDense, encodeIds } from "./encode-columns.ts";
import type { DataProfile } from "./profile-columns.ts";

/**
 * Decay of the moving averages of the weights, which span about 50 steps. With a few thousand
 * samples, the rows of rare ids fluctuate, and metrics of the averages are steadier and better.
 */
const decay = 0.98;

/** Fewest features with low-rank cross layers; full-rank ones would be most of the model. */
const wideFeatures = 40;

/** Options of a proposed job. */
export interface FirstJobOptions {
  readonly name?: string | undefined;
  /** The label value of the positive class, for two values other than 0 and 1. */
  readonly positive?: string | undefined;
  /** The directory for vocabulary files. @default all ids are hashed */
  readonly vocabularies?: string | undefined;
  /** Whether a checkpoint directory is in use already. @default none is */
  readonly isTaken?: ((directory: string) => boolean) | undefined;
}

/** A proposed job, validated like a submitted one. */
export interface FirstJob {
  readonly job: Readonly<Record<string, object | string>>;
  /** The vocabulary files that it refers to; the caller writes them before training. */
  readonly vocabularies: readonly { readonly path: string; readonly bytes: Buffer }[];
  /** The reason for each feature's encoding, by the column's name in the job. */
  readonly reasons: ReadonlyMap<string, string>;
}

/**
 * The proposed job as the text of a YAML file.
 * @throws as `firstJobOf`
 */
export function firstJob(
  data: DataProfile,
  roles: readonly AssignedColumn[],
  options: FirstJobOptions = {},
): string {
  return firstJobText(data, roles, firstJobOf(data, roles, options));
}

/** The YAML text of a job from `firstJobOf`. */
export function firstJobText(
  data: DataProfile,
  roles: readonly AssignedColumn[],
  made: FirstJob,
): string {
  const document = new Document(made.job);
  document.commentBefore =
    ` A first job, made by \`osiris init\` of ${data.isWhole ? "all" : "the first"} ` +
    `${data.rows} rows. Edit it as needed;\n docs/jobs.md has every option, and ` +
    "`osiris train FILE` trains it.";
  explain(document, roles, made.reasons);
  return document.toString({ lineWidth: 0 });
}

/**
 * The proposed job, with its vocabulary files.
 * @throws InvalidOptionError, InputUnusableError where the label cannot be learned
 */
export function firstJobOf(
  data: DataProfile,
  roles: readonly AssignedColumn[],
  options: FirstJobOptions,
): FirstJob {
  const ofRole = (role: AssignedColumn["role"]) => roles.filter((one) => one.role === role);
  const [label] = ofRole("label");
  if (label === undefined) throw new RangeError("Expected a label");
  const [time] = ofRole("time");
  const target = targetOf(data, label.profile, options.positive);
  const names = data.columns.map((column) => column.name);
  const isCriteo = data.kind === "criteo-tsv"; // Its columns are fixed, and have no transforms.
  const dense = encodeDense(ofRole("dense"), names);
  const ids = encodeIds(ofRole("categorical"), names, isCriteo ? undefined : options.vocabularies);
  const name = options.name ?? nameOf(data);
  const batchSize = batchOf(data.rows);
  const stepsPerEpoch = Math.ceil(data.rows / batchSize);
  const width = dense.reduce((sum, { entry }) => sum + (entry.missing === "indicator" ? 2 : 1), 0);
  const job = {
    name,
    model: {
      kind: "dcnV2",
      dense: isCriteo ? dense.length : width,
      tables: ids.flatMap(({ table }) => table ?? []),
      ...featuresOf(ids),
      ...(dense.length > 0 ? { bottom: [64, dim] } : {}),
      crossLayers: 2,
      ...(ids.length >= wideFeatures ? { rank: 64 } : {}),
      structure: "parallel",
      top: [64, 32, 1],
    },
    data: {
      kind: data.kind === "tsv" ? "csv" : data.kind,
      paths: data.paths.map(shownPath),
      ...delimiterOf(data),
      ...(isCriteo ? {} : columnsOf(label.profile.name, target.data, dense, ids)),
      batchSize,
      epochs: data.isWhole ? 10 : 5,
    },
    ...target.job,
    optimizer: {
      dense: { kind: "adam", learningRate: 0.001, ema: { decay } },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.05, ema: { decay } },
    },
    evaluation: {
      fraction: 0.1,
      ...(time === undefined ? {} : { split: { kind: "time", column: time.profile.name } }),
      // The length of an epoch is unknown if only a part of the data was read.
      ...(data.isWhole ? { everySteps: Math.ceil(stepsPerEpoch / 4) } : {}),
      earlyStopping: { metric: target.metric, patience: data.isWhole ? 6 : 2 },
    },
    checkpoint: {
      directory: freeDirectory(name, options),
      everySteps: Math.max(20, stepsPerEpoch),
    },
  };
  resolveJob(job);
  const encoded = [...dense, ...ids];
  const reasons = new Map(encoded.map(({ entry, why }) => [entry.column, why]));
  const vocabularies = encoded.flatMap(({ vocabulary }) => vocabulary ?? []);
  return { job, vocabularies, reasons: reasons.set(label.profile.name, label.why) };
}

/** A checkpoint directory that is not in use. */
function freeDirectory(name: string, { isTaken = () => false }: FirstJobOptions): string {
  let directory = `checkpoints/${name}`;
  for (let i = 2; isTaken(directory); i++) directory = `checkpoints/${name}-${i}`;
  return directory;
}

/** The model's `features`, needed only where features share tables. */
function featuresOf(ids: readonly EncodedColumn[]): object {
  if (ids.every(({ tableOf }) => tableOf === undefined)) return {};
  return {
    features: ids.map(({ profile, entry, tableOf }) => {
      return { column: entry.column, table: tableOf ?? profile.name };
    }),
  };
}

/** The column options of the `data` section. */
function columnsOf(
  label: string,
  target: object,
  dense: readonly EncodedColumn[],
  ids: readonly EncodedColumn[],
) {
  const hasOwnTables = ids.every(({ tableOf }) => tableOf === undefined);
  const transforms = [...dense, ...ids].flatMap(({ transform }) => transform ?? []);
  return {
    label,
    ...target,
    ...(transforms.length === 0 ? {} : { transforms }),
    dense: dense.map(({ entry }) => entry),
    categorical: ids.map(({ entry }) => {
      const { table: _table, ...rest } = entry;
      return hasOwnTables ? entry : rest; // `model.features` names the tables.
    }),
  };
}

function delimiterOf({ kind, delimiter }: DataProfile) {
  const separator = delimiter ?? (kind === "tsv" ? "\t" : ",");
  return (kind === "csv" || kind === "tsv") && separator !== "," ? { delimiter: separator } : {};
}

/** Puts each column on one line, with its reason as a comment. */
function explain(
  document: Document,
  roles: readonly AssignedColumn[],
  reasons: FirstJob["reasons"],
): void {
  const whyOf = (name: string) => ` ${reasons.get(name)}`;
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
    ["model", "features"],
    ["data", "transforms"],
    ["data", "dense"],
    ["data", "categorical"],
  ]) {
    const list = document.getIn(path);
    if (!isSeq(list)) continue;
    for (const node of list.items) {
      if (!isMap(node)) continue;
      node.flow = true;
      if (path[0] === "data" && node.has("column"))
        node.comment = whyOf(String(node.get("column")));
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

/** The options for the label: two classes, or a number with the loss `mse`. */
function targetOf(
  { files: [file = ""], rows }: DataProfile,
  profile: ColumnProfile,
  positive: string | undefined,
): { readonly data: object; readonly job: object; readonly metric: "logLoss" | "rmse" } {
  const { name, values, distinct, texts, missing } = profile;
  if (positive !== undefined && !values.includes(positive)) {
    const known = values.length > 0 ? values.join(", ") : `${distinct} different ones`;
    throw expected("positive", `one of the values of \`${name}\`, ${known}`, positive);
  }
  if (missing > rejectedShare * rows) {
    const message = `The label \`${name}\` of ${file} has no value in ${missing} rows; expected one in each`;
    throw new InputUnusableError(file, message);
  }
  const classes = { job: {}, metric: "logLoss" } as const;
  const found = positive ?? positiveOf(profile);
  const isPlain = ["0,1", "-1,1", "false,true"].includes([...values].sort().join());
  if (isPlain && found !== undefined && ["1", "true"].includes(found)) {
    return { data: {}, ...classes };
  }
  if (found !== undefined) {
    // As a number it matches every notation, e.g. `2` and `2.0`.
    return { data: { positive: texts === 0 ? Number(found) : found }, ...classes };
  }
  if (texts === 0 && distinct > 2) {
    return { data: {}, job: { loss: { kind: "mse" } }, metric: "rmse" };
  }
  const message =
    `The label \`${name}\` of ${file} has the values ${values.join(", ") || "of text"}: ` +
    "say with `--positive` which of them is the positive class";
  throw new InputUnusableError(file, message);
}

/** Largest share of lines without a label that training accepts by default: `rejectedMax`. */
const rejectedShare = 0.01;

function batchOf(rows: number): number {
  return Math.min(2048, Math.max(16, 2 ** Math.floor(Math.log2(rows / 128))));
}

/** The job's name: that of the given directory, else that of the first file. */
function nameOf({ paths, files }: DataProfile): string {
  const [path = ""] = paths;
  const isFile = files.includes(path) || isPattern(basename(path));
  if (!isFile) return basename(shownPath(path)).replace(/[^\w-]+/g, "-") || "data";
  const file =
    shownPath(files[0] ?? "")
      .split("/")
      .at(-1) ?? "data";
  const bare = file.replace(/\.(gz|zst)$/i, "");
  return bare.slice(0, bare.length - extname(bare).length).replace(/[^\w-]+/g, "-") || "data";
}
