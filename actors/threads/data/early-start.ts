// Begins a run while its files are still being indexed: the files' footers determine its splits and
// the number of its steps, and each step can be trained once the files that it reads are indexed.
// Files are indexed in the order in which the steps read them.

import { readPieces } from "../../../src/data/cache/cache-facts.ts";
import { cacheShapeOf } from "../../../src/data/cache/cache-key.ts";
import {
  type FeatureStatistics,
  StatisticsCollector,
} from "../../../src/data/cache/feature-statistics.ts";
import {
  type CacheReport,
  findIndex,
  prepareCache,
} from "../../../src/data/cache/prepare-cache.ts";
import { isStreamed } from "../../../src/data/data-kinds.ts";
import { type EarlyIndex, earlyIndexOf } from "../../../src/data/file-index/early-index.ts";
import {
  hasIndex,
  type IndexedData,
  indexedData,
} from "../../../src/data/file-index/index-file.ts";
import { type IndexHelp, IndexRun } from "../../../src/data/file-index/write-index.ts";
import { type FileFacts, factsOfAll } from "../../../src/data/remote/file-facts.ts";
import { cutOf, EpochOrder, lanesOf } from "../../../src/data/sample-order.ts";
import { piecesOf } from "../../../src/data/split.ts";
import type { JobSpec } from "../../../src/job/job.ts";
import { stepBefore } from "../../../src/job/warm-start.ts";
import { shapesOf } from "../../../src/model/features.ts";
import type { Disk } from "../../../src/ports/disk.ts";
import { scheduleOf } from "../../../src/training/loop/schedule.ts";
import type { DataPlan, DatasetPlan } from "../generation-spec.ts";
import { allSteps, ReadySteps } from "./ready-steps.ts";

/** Bytes without an index from which on a run begins early, unless the job says otherwise. */
const earlyBytesMin = 2 ** 30;

/** Reports how many steps can be trained, and the share of the bytes that is indexed. */
export type TellIndexed = (steps: number, fraction: number) => void;

/** The training data of a run that begins early. */
export interface EarlyStart {
  /** The figures of the data that follow from the footers. */
  readonly report: CacheReport;
  /**
   * Resolves once the first step can be trained: to the number of trainable steps, and statistics
   * of the samples in the files indexed for them.
   */
  begin(
    plan: Pick<DataPlan, "training" | "contents">,
  ): Promise<{ readonly steps: number; readonly statistics: readonly FeatureStatistics[] }>;
  /** Indexes all other files. @throws as `prepareCache` */
  goOn(tell: TellIndexed): Promise<void>;
}

/**
 * The start of a run whose files are not all indexed; undefined where it waits for the index:
 * because its order depends on more than the footers, or little is left to index.
 * @throws InputUnusableError if a file cannot be read
 */
export async function earlyStartOf(
  job: JobSpec,
  disk: Disk,
  readerBytesMax: number,
  help: IndexHelp | undefined,
): Promise<EarlyStart | undefined> {
  const { data: options, slices } = job;
  if (options.kind !== "parquet" || !mayBeginEarly(job)) return undefined;
  const tables = shapesOf(job.model);
  const data = indexedData({ options, tables, key: undefined, disk, store: help?.store });
  const facts = await factsOfAll(options.paths);
  const isMade = facts.map((own, place) => hasIndex(data, { place, facts: own }));
  const missing = facts.reduce((sum, { bytes }, i) => sum + (isMade[i] === true ? 0 : bytes), 0);
  const least = options.startEarly === true ? 1 : earlyBytesMin;
  if (missing < least || facts.length < 2 || findIndex(options, tables, facts, disk)) {
    return undefined;
  }
  const index = await earlyIndexOf(data, facts);
  if (index === undefined) return undefined;
  const { bytesMax = 0 } = readPieces(index.path, disk) ?? {};
  if (lanesOf(bytesMax, slices, readerBytesMax) < slices) return undefined;
  return new EarlyRun(job, data, facts, index, help);
}

/**
 * Whether the order of a job's samples follows from their number, and nothing reads them before.
 */
function mayBeginEarly({ data, evaluation, preprocessing }: JobSpec): boolean {
  if (!isStreamed(data) || data.kind !== "parquet" || data.startEarly === false) return false;
  if (preprocessing !== undefined || data.ikjt !== undefined) return false;
  return evaluation?.data !== undefined || (evaluation?.split?.kind ?? "order") === "order";
}

class EarlyRun implements EarlyStart {
  readonly report: CacheReport;
  readonly #job: JobSpec;
  readonly #data: IndexedData;
  readonly #facts: readonly FileFacts[];
  readonly #index: EarlyIndex;
  readonly #help: IndexHelp | undefined;
  #ready: ReadySteps | undefined;
  #run: IndexRun | undefined;

  constructor(
    job: JobSpec,
    data: IndexedData,
    facts: readonly FileFacts[],
    index: EarlyIndex,
    help: IndexHelp | undefined,
  ) {
    this.#job = job;
    this.#data = data;
    this.#facts = facts;
    this.#index = index;
    this.#help = help;
    const { path, meta, idsMean } = index;
    const none = { distinctIds: 0, window: { samples: 0, ids: 0, reuse: [] } };
    const statistics = idsMean.map((mean, i) => {
      return { ...none, idsSum: mean * meta.samples, idsMean: mean, idsMax: meta.idsMax[i] ?? 0 };
    });
    this.report = { path, ...meta, statistics };
  }

  async begin({ training, contents }: Pick<DataPlan, "training" | "contents">) {
    const { starts, meta } = this.#index;
    const { seed, slices, data } = this.#job;
    const pieces = piecesIn(training, seed, meta.samples, starts);
    const { samples } = training;
    const { batchSize, passes, shuffle } = data;
    const schedule = scheduleOf({ samples, batchSize, passes, begin: stepBefore(this.#job) });
    const split = cutOf(contents, slices, pieces);
    const order = new EpochOrder({ seed, shuffle, split }, schedule);
    const ready = new ReadySteps(schedule, order, pieces, meta.files?.samples ?? []);
    const run = new IndexRun(this.#data, this.#facts, this.#help, ready.filesInOrder());
    [this.#ready, this.#run] = [ready, run];
    const isThere = run.isThere.bind(run);
    await run.until(() => ready.upTo(isThere) > schedule.begin);
    const { wide, rows } = cacheShapeOf(this.#data.options, this.#data.tables);
    const known = new StatisticsCollector(wide, rows);
    for (const file of ready.filesOf(schedule.begin)) {
      known.absorb((await run.make(file)).samples.statistics);
    }
    const bounds = this.report.statistics ?? [];
    const statistics = known.finish().map((one, i) => ({ ...one, ...sizesIn(bounds[i]) }));
    return { steps: ready.upTo(isThere), statistics };
  }

  async goOn(tell: TellIndexed): Promise<void> {
    const [ready, run] = [this.#ready, this.#run];
    if (ready === undefined || run === undefined) throw new RangeError("It has not begun");
    const { options, tables, disk } = this.#data;
    let fraction = 0;
    const isThere = run.isThere.bind(run);
    const onSign = () => tell(ready.upTo(isThere), fraction);
    const onProgress = (progress: { readonly fraction: number }) => {
      fraction = progress.fraction;
      onSign();
    };
    run.onSign = onSign;
    try {
      const early = { run, index: this.#index };
      await prepareCache(options, tables, disk, onProgress, undefined, undefined, { early });
    } finally {
      run.stop();
    }
    tell(allSteps, 1);
  }
}

const sizesIn = (one: FeatureStatistics | undefined) =>
  one && { idsSum: one.idsSum, idsMean: one.idsMean, idsMax: one.idsMax };

/** The pieces of the training part, whose samples are the first ones. */
function piecesIn(
  { split }: DatasetPlan,
  seed: number,
  samples: number,
  starts: Float64Array,
): Float64Array {
  return split === undefined ? starts : piecesOf({ seed, ...split }, samples, starts);
}
