// The doctor's checks of a job: its memory, its directories, and its data. All problems are found
// at once, before anything is started. Creates nothing but a temporary file to test a disk.

import {
  isShared,
  ofAllSamples,
  sharingOf,
  sharingWarnings,
} from "../../src/data/columnar/value-watch.ts";
import { linesOf, placeOf } from "../../src/data/data-kinds.ts";
import { type FilesLook, lookAtFiles } from "../../src/data/file-samples.ts";
import type { ResolvedFileOptions } from "../../src/data/options.ts";
import { type KeyColumn, keyColumnOf } from "../../src/data/split-keys.ts";
import { areNumeric, labelsOf, targetsOf } from "../../src/data/targets.ts";
import { weightedOf } from "../../src/data/text/match-features.ts";
import { type JobOptions, type JobSpec, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { withFiles, withModel } from "../../src/job/job-files.ts";
import { shapesOf } from "../../src/model/features.ts";
import { mostDevices, serversOf, slicesBeside } from "../../src/planner/placement.ts";
import { realClock } from "../../src/ports/clock.ts";
import {
  countedStatistics,
  countedTables,
} from "../../src/training/planning/counted-statistics.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { ringShapeOf, topologyOf } from "../../src/training/topology/topology.ts";
import { openExistingStore } from "../../storage/checkpoints/store/open-store.ts";
import { tierRingOf } from "../../storage/tiers/shape.ts";
import { type HostMemory, hostMemoryOf } from "../threads/host-memory.ts";
import { type Check, check } from "./doctor-checks.ts";
import { diskChecks, memoryCheck, writableCheck } from "./doctor-machine.ts";

/** The result of checking a job. */
export interface JobDiagnosis {
  readonly checks: readonly Check[];
  /** Whether no check fails. */
  readonly isFit: boolean;
}

/** Most tables with statistics in the result. */
const tablesMax = 32;
/** Most lines of the data that are read. */
const linesMax = 10_000;

/** Checks a job on this machine. @throws InvalidOptionError if its options are wrong */
export async function checkJob(given: JobOptions, devices?: number): Promise<JobDiagnosis> {
  const job = resolveJob(given);
  const checks = await jobChecks(job, devices ?? (job.devices || 2));
  return { checks, isFit: checks.every(({ state }) => state !== "fail") };
}

/** Memory, directories, checkpoints, and the data of training, evaluation and test. */
export async function jobChecks(given: JobSpec, devices: number): Promise<Check[]> {
  const job = withModel(await withFiles(given));
  const { data: held, test, split } = job.evaluation ?? {};
  const key = keyColumnOf(split);
  return [
    memoryCheck(job, devices, memoryOfJob(job, devices)),
    ...(await diskChecks(job, realClock)),
    runCheck(job),
    writableCheck("cache", job.data.cache),
    ...(await dataChecks("data", job.data, job, key)),
    orderCheck(job.data),
    ...statisticsChecks(job),
    ...(held === undefined ? [] : await dataChecks("evaluation", held, job)),
    ...(test?.data === undefined ? [] : await dataChecks("test", test.data, job)),
  ];
}

/** The memory of all devices on one host; undefined if the data's ids are not counted yet. */
function memoryOfJob(job: JobSpec, devices: number): HostMemory | undefined {
  const counted = countedStatistics(job)?.features;
  if (counted === undefined || devices > mostDevices(job)) return undefined;
  const { model, slices, exchange, tiers, data } = job;
  const bags = {
    idsMax: counted.map(({ idsMax }) => idsMax),
    idsMean: counted.map(({ idsMean }) => idsMean),
    weighted: weightedOf(data, shapesOf(model)),
  };
  const batch = { batchSize: data.batchSize, targets: targetsOf(data), ...bags };
  const sliceCounts = slicesBeside(slices, devices, serversOf(job.placement, devices));
  const input = { model, slices, exchange, tiers, sliceCounts, ...batch };
  const topology = topologyOf(input, devices);
  const tierRings = topology.sliceRuns.map((_, rank) => {
    return tierRingOf(topology, rank, job.optimizer.sparse);
  });
  const exchangeShape = exchangeShapeOf(topology);
  const shapes = { topology, tierRings, exchangeShape, ringShape: ringShapeOf(topology) };
  return hostMemoryOf(job, shapes, { first: 0, count: devices });
}

/** The run that the checkpoint directory holds, if there is one. */
function runCheck(job: JobSpec): Check {
  const { directory } = job.checkpoint;
  const name = "checkpoints: run";
  const ways = "name another directory, or delete this one";
  try {
    const { manifests, damaged } = openExistingStore(directory).list();
    const [newest] = manifests;
    if (newest === undefined && damaged[0] !== undefined) {
      return check(name, "fail", `${damaged[0].path} is damaged: ${damaged[0].reason}`, ways);
    }
    if (newest === undefined) return check(name, "ok", `${directory} has no checkpoint`);
    if (newest.jobIdentity !== jobIdentity(job)) {
      return check(name, "fail", `${directory} holds a run of another job`, ways);
    }
    return check(name, "ok", `the run resumes from step ${newest.cut} of ${directory}`);
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code === "CHECKPOINT_MISSING") return check(name, "ok", "the run starts from step 0");
    return check(name, "fail", message, ways);
  }
}

async function dataChecks(
  name: string,
  data: JobSpec["data"],
  job: JobSpec,
  key?: KeyColumn,
): Promise<Check[]> {
  if (data.kind === "synthetic") return [check(name, "ok", `${data.samples} generated samples`)];
  const look = await lookAtFiles(data, shapesOf(job.model), linesMax, key);
  const size = `${look.files} ${look.files === 1 ? "file" : "files"}, ${look.bytes.toLocaleString("en-US")} bytes`;
  const problems = look.problems.map((problem) => {
    const advice = "name existing files that have these columns";
    return check(`${name}: files`, "fail", sentenceOf(name, problem), advice);
  });
  const files = problems.length > 0 ? problems : [check(`${name}: files`, "ok", size)];
  const isSeen = look.samples + look.rejected.count > 0;
  const values = name === "data" ? valuesChecks(look, job) : []; // Held-out data share these tables.
  return isSeen ? [...files, linesCheck(name, data, look), ...values] : files;
}

/** Codes of warnings that a column leaks the label. */
const leakCodes = ["FEATURE_PREDICTS_LABEL", "VALUE_PREDICTS_LABEL"];

/**
 * Checks how many values of columns share rows of their tables, and whether values leak the label.
 */
function valuesChecks({ values = [], warnings = [] }: FilesLook, job: JobSpec): Check[] {
  const counted = countedStatistics(job)?.features;
  const all = values.map((own) => ofAllSamples(own, counted));
  const leaks = warnings.filter(({ code }) => leakCodes.includes(code));
  return [
    ...all.slice(0, tablesMax).map((own) => {
      return check(`data: values of ${own.column}`, isShared(own) ? "warn" : "ok", sharingOf(own));
    }),
    ...[...sharingWarnings(all), ...leaks].map(({ code, message }) => {
      return check("data: values", "warn", code, message);
    }),
  ];
}

/** The order of the samples, as far as the job alone determines it. */
function orderCheck({ shuffle, order }: JobSpec["data"]): Check {
  const bySize = "global; split, if the cache is larger than 256 MiB";
  return check("data: order", "ok", shuffle ? (order ?? bySize) : "the order of the files");
}

/** Statistics of each table's ids, if the data's cache exists. */
function statisticsChecks(job: JobSpec): Check[] {
  const counted = countedStatistics(job);
  if (counted === undefined) {
    return [
      check(
        "data: ids",
        "ok",
        "not counted yet: the first run counts them when it makes the cache",
      ),
    ];
  }
  const tables = countedTables(job, counted.features);
  const number = (value: number) => Math.round(value).toLocaleString("en-US");
  const shown = tables
    .slice(0, tablesMax)
    .map(({ name, rows, idsMean, idsMax, distinct, zipf }) => {
      const bags = `${idsMean.toFixed(2)} ids per sample, longest bag ${number(idsMax)}`;
      const popular = `${number(distinct)} distinct, Zipf ${zipf.toFixed(2)}`;
      return check(`data: ids of ${name}`, "ok", `${number(rows)} rows; ${bags}; ${popular}`);
    });
  const rest = tables.length - shown.length;
  return rest === 0
    ? shown
    : [...shown, check("data: ids", "ok", `${rest} more tables are not shown`)];
}

/** Adapts a message about columns of the training data to the named data set. */
function sentenceOf(name: string, problem: string): string {
  if (name === "data") return problem;
  const option = name === "test" ? "evaluation.test.data" : "evaluation.data";
  const options = problem.replaceAll("`data.", `\`${option}.`);
  return options.replace(", which ", `, which the ${name}'s file `);
}

/** Describes the labels of the good lines. */
function labelsIn(data: ResolvedFileOptions, { samples, labels }: FilesLook): string {
  const { positives, range, labelled } = labels;
  const [first = 0] = labelled;
  const gaps = labelsOf(data).flatMap((name, i) => {
    const lacking = samples === 0 ? 0 : samples - (labelled[i] ?? 0);
    return lacking === 0 ? [] : `, ${lacking} have no \`${name}\``;
  });
  if (areNumeric(data)[0] !== true) {
    return `${positives} have label 1, ${first - positives} label 0${gaps.join("")}`;
  }
  if (first === 0) return "no line has a label";
  return `${first} have labels from ${range[0]} to ${range[1]}${gaps.join("")}`;
}

/** Summarises the lines that were read. */
function linesCheck(name: string, data: ResolvedFileOptions, look: FilesLook): Check {
  const { rejectedMax } = data;
  const { samples, rejected } = look;
  const lines = samples + rejected.count;
  const share = (part: number) => `${((100 * part) / lines).toPrecision(3)} %`;
  const found =
    `of the first ${lines} ${linesOf(data)} ${labelsIn(data, look)}, ` +
    `${rejected.count} are bad (${share(rejected.count)})`;
  const reasons = rejected.reasons.map((reason) => {
    const { count, kind, got } = reason;
    return `${count} × ${kind} (${placeOf(reason)}${got === undefined ? "" : `: ${got}`})`;
  });
  const advice = [...new Set(rejected.reasons.flatMap((reason) => reason.advice ?? []))];
  const why = [...reasons, ...advice].join("; ");
  const isTooBad = samples === 0 || rejected.count > rejectedMax * lines;
  if (isTooBad) {
    const most = `at most ${100 * rejectedMax} % may be bad (\`rejectedMax\`)`;
    return check(`${name}: lines`, "fail", `${found}; ${most}`, why);
  }
  if (look.labels.range[0] === look.labels.range[1]) {
    const one =
      "all these lines have the same label: if all the data has it, a model learns nothing";
    return check(`${name}: lines`, "warn", found, why === "" ? one : `${one}; ${why}`);
  }
  return check(`${name}: lines`, rejected.count === 0 ? "ok" : "warn", found, why);
}
