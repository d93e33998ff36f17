// The job: a user's request for a training run, as plain data that is sent between threads and over
// NATS. job-schema.ts has its options; this file completes a job once, and checks its options
// against each other.

import { createHash } from "node:crypto";
import type { z } from "zod";
import { isStreamed } from "../data/data-kinds.ts";
import type { DataOptions } from "../data/options.ts";
import { shownPath } from "../data/remote/addresses.ts";
import { wrongGroupIn } from "../data/sessions/ikjt-options.ts";
import { targetsOf } from "../data/targets.ts";
import { checkTables, denseOf } from "../data/text/columns.ts";
import { identityOf } from "../data/transforms/vocabulary.ts";
import { type TableSpec, tableOptions } from "../embedding/tables/options.ts";
import { isReduced } from "../exchange/scales.ts";
import { shapesOf } from "../model/features.ts";
import { featureOptions, tablesMax } from "../model/kinds/common-options.ts";
import type { ModelOptions } from "../model/options.ts";
import { checkAll, checkEach, checkOptions, expected } from "../ports/check-options.ts";
import { atOnce, type Steps } from "../ports/turns.ts";
import { isSection, type Written } from "../ports/written.ts";
import { checkAsynchronous, withAsynchronous } from "./check-asynchronous.ts";
import { checkDecay } from "./check-decay.ts";
import {
  checkAdapt,
  checkBits,
  checkDynamic,
  checkPartial,
  checkPlan,
  checkStaleness,
  checkTopK,
} from "./check-placement.ts";
import { checkTasks } from "./check-tasks.ts";
import { withChosenCuts } from "./choose-cuts.ts";
import {
  checkEvaluation,
  type EvaluationOptions,
  splitIdentity,
  stoppingOf,
  withEvaluationData,
} from "./evaluation-options.ts";
import { checkPlacement, withPlacement } from "./job-placement.ts";
import { jobSchema } from "./job-schema.ts";
import { withLeftOut } from "./left-out.ts";
import { warmStartIdentity } from "./warm-start.ts";

/** A job as a user writes it. */
export type JobOptions = Written<
  Omit<z.input<typeof jobSchema>, "model" | "data" | "evaluation">
> & {
  /** The model: its architecture by `kind`, its tables and its layers. */
  readonly model: ModelOptions;
  /** The training data, by `kind`: files, or generated samples. */
  readonly data: DataOptions;
  /** Evaluation on held-out samples, at cuts. Left out: none. */
  readonly evaluation?: EvaluationOptions;
};

/** A job after its checks: complete and frozen. */
export type JobSpec = z.output<typeof jobSchema>;

/** Completes and checks a job. @throws InvalidOptionError */
export function resolveJob(options: unknown): JobSpec {
  return atOnce(resolvingJob(options));
}

/** Completes and checks a job as `resolveJob`; of many tables, in steps. */
export function* resolvingJob(options: unknown): Steps<JobSpec> {
  const written = withEvaluationData(completed(options));
  const isWide = hasMany(written);
  if (isWide) yield;
  const checked = checkOptions(jobSchema, isWide ? yield* withEach(written) : written);
  if (isWide) yield;
  const job = withAsynchronous(withChosenCuts(checked, written));
  checkAll([
    () => checkAsynchronous(job),
    () => checkEvaluation(job, shapesOf(job.model)),
    () => checkData(job),
    () => checkTasks(job),
    () => checkStaleness(job),
    () => checkBits(job),
    () => checkPartial(job),
    () => checkTopK(job),
    () => checkDedup(job),
    () => checkTiers(job),
    () => checkDecay(job),
    () => checkDynamic(job),
    () => checkAhead(job),
    () => checkPlacement(job),
    () => checkPlan(job),
    () => checkAdapt(job),
    () => checkPreprocessing(job),
  ]);
  if (isWide) yield;
  return withPlacement(job);
}

/** Most tables that are checked in one step: they take no longer than the other options. */
const manyTables = 500;

function hasMany(options: unknown): boolean {
  const model = isSection(options) ? options.model : undefined;
  const tables = isSection(model) ? model.tables : undefined;
  return Array.isArray(tables) && tables.length > manyTables;
}

/** Checks tables and features in steps. Returns the options with the valid ones completed. */
function* withEach(options: unknown): Steps<unknown> {
  const model = isSection(options) ? options.model : undefined;
  if (!isSection(options) || !isSection(model)) return options;
  const { tables, features } = model;
  const isList = (value: unknown): value is unknown[] =>
    Array.isArray(value) && value.length <= tablesMax;
  const lists = {
    ...(isList(tables) && { tables: yield* checkEach(tableOptions, tables) }),
    ...(isList(features) && { features: yield* checkEach(featureOptions, features) }),
  };
  yield;
  return { ...options, model: { ...model, ...lists } };
}

/**
 * Calls `withLeftOut`; if that refuses the job, also checks the sections that it does not read, so
 * that one error reports the problems of both.
 */
function completed(options: unknown): unknown {
  try {
    return withLeftOut(options);
  } catch (error) {
    const {
      model: _model,
      data: _data,
      evaluation: _evaluation,
      ...rest
    } = options as object & Partial<Record<"model" | "data" | "evaluation", unknown>>;
    const others = jobSchema.omit({ model: true, data: true, evaluation: true });
    const refuse = () => {
      throw error;
    };
    checkAll([refuse, () => void checkOptions(others, rest)]);
    throw error;
  }
}

/** @throws InvalidOptionError where columns and tables, or dense features, contradict each other */
function checkData({ data, model }: JobSpec): void {
  if (!data.shuffle && data.order !== undefined) {
    throw expected(
      "data.order",
      "left out, as `data.shuffle` is false: samples come as in the file",
      data.order,
    );
  }
  if (data.order === "sessions" && !targetsOf(data).hasGroups) {
    const why =
      "another order, or `data.group` beside it (of generated data, `data.sessions`): the column that " +
      "says which samples are a session";
    throw expected("data.order", why, data.order);
  }
  if (data.kind !== "synthetic") checkTables(data, shapesOf(model));
  const wrong =
    data.ikjt &&
    wrongGroupIn(
      data.ikjt,
      shapesOf(model).map(({ name }) => name),
    );
  if (wrong !== undefined) {
    const { group, place, name } = wrong;
    throw expected(`data.ikjt.groups[${group}][${place}]`, wrong.expected, name);
  }
  const dense = denseOf(data);
  if (dense === model.dense) return;
  if (data.kind === "synthetic") throw expected("data.dense", `the model's, ${model.dense}`, dense);
  throw expected("model.dense", `left out, or that of the data, ${dense}`, model.dense);
}

/** @throws InvalidOptionError where preprocessing workers would have no samples to make */
function checkPreprocessing({ data, preprocessing }: JobSpec): void {
  if (preprocessing === undefined || isStreamed(data)) return;
  const why =
    "left out where the samples lie in a cache; workers make those of data with `cache: none`";
  throw expected("preprocessing", why, preprocessing);
}

/**
 * In fewer bits the exchange rounds the rows of a table with `dedup`. A device with a copy of the
 * table would pool rows that were not rounded, so the bits would depend on the plan (law 4).
 * @throws InvalidOptionError
 */
function checkDedup({ model, exchange }: JobSpec): void {
  const isCopied = ({ dedup, sharding }: TableSpec) => dedup && sharding === "data-parallel";
  const table = model.tables.findIndex(isCopied);
  if (table < 0 || !isReduced(exchange)) return;
  throw expected(
    `model.tables[${table}].dedup`,
    "false for a data-parallel table where `exchange` sends fewer bits, as copies send no rows",
    true,
  );
}

/** @throws InvalidOptionError where tables cannot be read ahead, as their ids come too late */
function checkAhead({ pipeline: { ahead, depth } }: JobSpec): void {
  if (ahead === 0 || depth === 3) return;
  throw expected("pipeline.ahead", "0 where `pipeline.depth` is below 3: ids come too late", ahead);
}

/** @throws InvalidOptionError */
function checkTiers({ model }: JobSpec): void {
  for (const [i, { tier, sharding, staleness }] of model.tables.entries()) {
    if (tier === "memory") continue;
    const path = `model.tables[${i}].tier`;
    if (sharding === "data-parallel") {
      const why = '"memory" where `sharding` is "data-parallel": a copy is in memory';
      throw expected(path, why, tier);
    }
    if (staleness > 0) throw expected(path, '"memory" where the table has `staleness`', tier);
  }
}

const texts = new WeakMap<JobSpec, string>();

/** The job as JSON; cached, because with 10,000 tables it has megabytes. */
export function jobTextOf(job: JobSpec): string {
  const text = texts.get(job) ?? JSON.stringify(job);
  texts.set(job, text);
  remember(text, job);
  return text;
}

/** The jobs of the last texts, the newest last. */
const jobs = new Map<string, JobSpec>();
/** Most cached jobs: a process serves few runs at a time, and a text may have megabytes. */
const jobsMax = 4;

function remember(text: string, job: JobSpec): void {
  jobs.delete(text);
  jobs.set(text, job);
  for (const oldest of jobs.keys()) {
    if (jobs.size <= jobsMax) break;
    jobs.delete(oldest);
  }
}

/** The job of a text. The last texts are cached. @throws InvalidOptionError */
export function jobOfText(text: string): JobSpec {
  return atOnce(readingJob(text));
}

/** Reads a job as `jobOfText`, in steps. */
export function* readingJob(text: string): Steps<JobSpec> {
  const job = jobs.get(text) ?? (yield* resolvingJob(JSON.parse(text)));
  remember(text, job);
  return job;
}

const identities = new WeakMap<JobSpec, string>();

/**
 * Returns the hash of all options that decide the trained bits. Devices, deadlines and names do not
 * count, so that jobs that differ only in these may share a checkpoint directory. Intervals of cuts
 * count only with stale tables, as these are read fresh after each cut.
 */
export function jobIdentity(job: JobSpec): string {
  const identity = identities.get(job) ?? identityOfJob(job);
  identities.set(job, identity);
  return identity;
}

function identityOfJob(job: JobSpec): string {
  const { mode, optimizer, loss, exchange, evaluation, checkpoint, seed, slices } = job;
  const model = withoutSharding(job.model, isReduced(exchange));
  const data = withoutPlace(job.data);
  const held = evaluation?.data === undefined ? undefined : withoutPlace(evaluation.data);
  const split = splitIdentity(evaluation);
  const stop = stoppingOf(evaluation, held);
  const cuts = job.model.tables.some(({ staleness }) => staleness > 0)
    ? [checkpoint.everySteps, evaluation?.everySteps]
    : undefined;
  const elastic = job.async?.elastic;
  const begin = warmStartIdentity(job);
  const stored = checkpoint.bits === 32 ? undefined : checkpoint.bits;
  const { dense, denseParts, ...vectors } = exchange;
  const rounded = dense === "float32" ? vectors : exchange;
  const decides = { mode, model, data, optimizer, loss, exchange: rounded, seed, slices };
  const parts = { ...decides, split, stop, cuts, begin, elastic, stored };
  return createHash("sha256").update(canonical(parts)).digest("hex");
}

/**
 * The model without the placement of its rows and the path of its module, which decide no bit;
 * `dedup` decides whether rows or vectors are rounded, if any are.
 */
function withoutSharding(model: JobSpec["model"], isRounded: boolean) {
  const tables = model.tables.map(({ sharding, dedup, tier, keep, ...rest }) => {
    return isRounded && dedup ? { ...rest, dedup } : rest;
  });
  // A module is identified by its contents.
  return { ...model, tables, ...("path" in model ? { path: undefined } : {}) };
}

/**
 * The data without options that decide no bit of a step, such as the directory of its cache, and
 * without the number of epochs.
 */
function withoutPlace(data: JobSpec["data"]) {
  const { cache: _cache, cacheBytesMax: _bytes, passes: _passes, ...others } = data;
  const transforms = "transforms" in others ? others.transforms : undefined;
  const rest = { ...others, ...(transforms && { transforms: identityOf(transforms) }) };
  // Credentials in signed URLs are no part of the data.
  const paths = "paths" in others ? { paths: others.paths.map(shownPath) } : {};
  const limits = { quarantineMax: undefined, rejectedMax: undefined, damagedMax: undefined };
  const early = { startEarly: undefined, remoteBytesMax: undefined };
  return { ...rest, ...paths, ...limits, ...early, labelAsFeature: undefined };
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner) =>
    isSection(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
