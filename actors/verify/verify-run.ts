// Verifies a run without a reference run: repeating its training from one checkpoint to a later one
// must give the same bits. The run's directory is only read; other processes may write to it
// meanwhile.
//
//   checkpoint A ─▶ pinned ─▶ replay, with the run's cuts ─▶ its checkpoint at B
//   checkpoint B ─▶ pinned ─▶ its files                   ─▶ compared, name by name

import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import {
  ArithmeticMismatchError,
  CheckpointMissingError,
  NotReplayableError,
} from "../../src/errors/errors.ts";
import { type JobSpec, resolveJob } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { expected } from "../../src/ports/check-options.ts";
import { realClock } from "../../src/ports/clock.ts";
import type { PlannedCut } from "../../src/training/loop/schedule.ts";
import { diffCheckpoints } from "../../storage/checkpoints/diff-checkpoints.ts";
import { type CheckpointRecord, recordOf } from "../../storage/checkpoints/list-checkpoints.ts";
import {
  jobOf,
  manifestOf,
  type OpenCheckpoint,
  openCheckpoint,
  withAllowedModule,
} from "../../storage/checkpoints/open-checkpoint.ts";
import { digestsByName } from "../../storage/checkpoints/part-digest.ts";
import { pinCheckpoint } from "../../storage/checkpoints/pinned-checkpoint.ts";
import type { Descent, Manifest } from "../../storage/checkpoints/store/checkpoint-store.ts";
import { openExistingStore } from "../../storage/checkpoints/store/open-store.ts";
import { type ProgressOptions, progressOf } from "../../storage/disk/progress.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { historyMax, type RunMetrics, restoredMetrics } from "../run/state/run-metrics.ts";
import { replay } from "./replay.ts";

export interface VerifyRunOptions extends Omit<ProgressOptions, "disk"> {
  /**
   * Start of the interval: the hash of a manifest, a prefix of it, or `start` for step 0.
   * @default the checkpoint before `to`; `start` where there is none
   */
  readonly from?: string | undefined;
  /** End of the interval. @default the newest checkpoint */
  readonly to?: string | undefined;
  /** Number of training threads; it does not affect the bits. @default 1 */
  readonly devices?: number | undefined;
  /** Called with the replayed steps and their total. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** The comparison of one part of the state. */
export interface ProofLeaf {
  /** `dense network`, `table user`, `ids of table user`, `metrics.history`. */
  readonly name: string;
  readonly isEqual: boolean;
  /** The difference, as a sentence, if there is one. */
  readonly difference?: string | undefined;
}

/** The result of a verification. */
export interface RunProof {
  /** The start of the interval; undefined: step 0. */
  readonly from: CheckpointRecord | undefined;
  readonly to: CheckpointRecord;
  /** The generations that trained the interval in the run. */
  readonly lineage: readonly Descent[];
  /** Replayed steps, and the time in seconds. */
  readonly steps: number;
  readonly seconds: number;
  readonly devices: number;
  /** Digest of the replayed model: `sha256:…`. */
  readonly digest: string;
  readonly leaves: readonly ProofLeaf[];
  readonly isEqual: boolean;
}

/** The keyword for step 0. */
const start = "start";
/**
 * Least step deadline of a replay: it may have fewer devices than the run had, and deadlines are
 * not what it verifies.
 */
const deadlineMsMin = 600_000;
const passesMax = 1_000_000;

/**
 * Repeats the training of a run from one checkpoint to another, and compares the results.
 * @throws NotReplayableError, ArithmeticMismatchError, CheckpointMissingError,
 * CheckpointCorruptError, InvalidOptionError, PathForbiddenError (as `loadModel`), and errors that
 * end a run (missing or changed data)
 */
export async function verifyRun(
  directory: string,
  options: VerifyRunOptions = {},
): Promise<RunProof> {
  const { devices = 1, onProgress = () => {}, signal } = options;
  const store = openExistingStore(directory);
  // The replay runs the job's module, so it must be allowed.
  const job = withAllowedModule(directory, jobOf(store));
  const { manifests } = store.list();
  const [newest] = manifests;
  const to = options.to === undefined && newest ? newest : manifestOf(store, job, options.to);
  const from = beginOf(manifests, to, options.from, (hash) => manifestOf(store, job, hash));
  const lineage = refuse(job, from, to);
  using home = temporaryHome("osiris-verify-");
  const [original, copy] = [join(home.path, "original"), join(home.path, "replay")];
  pinCheckpoint(store, to, original);
  if (from !== undefined) pinCheckpoint(store, from, copy);
  const first = from?.cut ?? 0;
  const total = to.cut - first;
  const startMs = realClock.now();
  const cuts = cutsBetween(first, to);
  const onStep = (step: number) => onProgress(step - first, total);
  const replayed = { directory, contents: restoredMetrics(to).contents };
  const replica = jobFor(job, to, copy, devices);
  await replay({ job: replica, cuts, replayed, devices, onStep, signal });
  const [last] = openExistingStore(copy).list().manifests;
  const [is, was] = [openCheckpoint(copy, last?.sha256), openCheckpoint(original, to.sha256)];
  const leaves = [...(await modelLeaves(is, was, signal)), ...seriesLeaves(is, was, job, lineage)];
  return {
    ...{ from: from && recordOf(from), to: recordOf(to), lineage, devices, leaves },
    ...{ steps: total, seconds: (realClock.now() - startMs) / 1000 },
    digest: `sha256:${is.manifest.modelDigest}`,
    isEqual: leaves.every(({ isEqual }) => isEqual),
  };
}

function beginOf(
  manifests: readonly Manifest[],
  to: Manifest,
  named: string | undefined,
  find: (hash: string) => Manifest,
): Manifest | undefined {
  if (named === start) return undefined;
  const from = named === undefined ? manifests.find(({ cut }) => cut < to.cut) : find(named);
  if (from !== undefined && from.cut >= to.cut) {
    throw expected("from", `a checkpoint before step ${to.cut}, where \`to\` is`, from.cut);
  }
  return from;
}

/**
 * The generations of the interval. @throws NotReplayableError, ArithmeticMismatchError if the
 * interval cannot be replayed exactly
 */
function refuse(job: JobSpec, from: Manifest | undefined, to: Manifest): Descent[] {
  const interval = `Training from step ${from?.cut ?? 0} to ${to.cut}`;
  const { bits } = job.checkpoint;
  if (to.mode === "async") {
    const why = "its trainers and servers kept no common order of updates";
    throw new NotReplayableError(interval, `${why} (mode: "async")`);
  }
  if (bits !== 32) {
    const why = `its checkpoints round weights to ${bits} bits, so a replay starts from other weights`;
    throw new NotReplayableError(interval, why);
  }
  const lineage = to.lineage.filter(({ from: began }, i) => {
    const ended = to.lineage[i + 1]?.from ?? to.cut;
    return ended > (from?.cut ?? 0) && began < to.cut;
  });
  const partial = lineage.find((one) => one.restored === "partial" && one.from >= (from?.cut ?? 0));
  if (partial !== undefined) {
    const why = `generation ${partial.generation} went on from step ${partial.from} without rows`;
    throw new NotReplayableError(interval, `${why} that a failure had lost (mode: "bounded")`);
  }
  // Their evaluations change the rates of `reduceOnPlateau`, and each point ends a mean loss.
  const { history } = restoredMetrics(to);
  const [oldest] = history;
  if (history.length === historyMax && oldest !== undefined && oldest.step > (from?.cut ?? 0)) {
    const why = `its history has the newest ${historyMax} evaluations and checkpoints alone`;
    throw new NotReplayableError(interval, `${why}, from step ${oldest.step} on`);
  }
  arithmeticOf(to);
  return lineage;
}

/**
 * The kernels with the arithmetic of a checkpoint. @throws ArithmeticMismatchError if this machine
 * has none
 */
function arithmeticOf({ arithmetic }: Manifest): "auto" | "reference" {
  const fastest = openKernels("auto").arithmetic;
  if (fastest === arithmetic) return "auto";
  if (openKernels("reference").arithmetic === arithmetic) return "reference";
  throw new ArithmeticMismatchError(arithmetic, fastest);
}

/**
 * The job, adapted to this machine without changing its bits: other devices, and all state in
 * `directory`.
 */
function jobFor(job: JobSpec, to: Manifest, directory: string, devices: number): JobSpec {
  const { plan: _plan, ...rest } = job;
  return resolveJob({
    ...rest,
    devices,
    arithmetic: arithmeticOf(to),
    data: { ...job.data, passes: Math.min(passesMax, job.data.passes + to.cut) },
    checkpoint: { ...job.checkpoint, directory, keep: 1 },
    tiers: { ...job.tiers, directory: undefined },
    stepDeadlineMs: Math.max(job.stepDeadlineMs, deadlineMsMin),
    restarts: { restartsMax: 1, windowMs: 600_000 },
  });
}

/** The cuts of the run's history in the interval; the last is `to`. */
function cutsBetween(first: number, to: Manifest): PlannedCut[] {
  const { history } = restoredMetrics(to);
  const cuts = history
    .filter(({ step }) => step > first && step < to.cut)
    .map(({ step, evaluation }) => {
      return { step, evaluate: evaluation !== undefined, checkpoint: evaluation === undefined };
    });
  const evaluate = history.at(-1)?.step === to.cut && history.at(-1)?.evaluation !== undefined;
  return [...cuts, { step: to.cut, evaluate, checkpoint: true }];
}

/** Compares the contents of files, not the digests in their manifests. */
async function modelLeaves(
  is: OpenCheckpoint,
  was: OpenCheckpoint,
  signal: AbortSignal | undefined,
): Promise<ProofLeaf[]> {
  if (is.manifest.cut !== was.manifest.cut) throw new CheckpointMissingError(is.store.directory);
  const progress = progressOf({ signal });
  const [ours, theirs] = [await digestsByName(is, progress), await digestsByName(was, progress)];
  const wrong = [...theirs.keys()].filter((name) => ours.get(name) !== theirs.get(name));
  const details = wrong.length === 0 ? new Map<string, string>() : await detailsOf(is, was, signal);
  const leaves = [...theirs.keys()].map((name) => {
    if (!wrong.includes(name)) return { name, isEqual: true };
    return { name, isEqual: false, difference: details.get(name) ?? "other bits" };
  });
  const isEqual = is.manifest.modelDigest === was.manifest.modelDigest;
  const difference = `its manifest has sha256:${was.manifest.modelDigest}`;
  return [...leaves, { name: "digest", isEqual, ...(isEqual ? {} : { difference }) }];
}

async function detailsOf(
  is: OpenCheckpoint,
  was: OpenCheckpoint,
  signal: AbortSignal | undefined,
): Promise<Map<string, string>> {
  const [from, to] = [is.manifest.sha256, was.manifest.sha256];
  const other = was.store.directory;
  const { tables, dense } = await diffCheckpoints(is.store.directory, from, to, { other, signal });
  const details = new Map<string, string>();
  for (const { name, changed, born, gone, largest } of tables) {
    const where = largest === undefined ? "" : `, a weight of row ${largest.row} by the most`;
    const rows = `rows that differ: ${changed}${where}`;
    const more = born + gone === 0 ? "" : `; ${born} were never initialised, ${gone} are missing`;
    details.set(`table ${name}`, rows + more);
  }
  const { weights, changed, state } = dense;
  const what = `${changed} of ${weights} weights and ${state} numbers of optimizer state differ`;
  return details.set("dense network", what);
}

/** The metrics that depend on the steps only, not on interruptions of the run. */
const series = [
  "history",
  "earlyStopping",
  "plateau",
  "lossSum",
  "lossSteps",
  "repairedIds",
  "staleRows",
  "dynamicIds",
] as const;

function seriesLeaves(
  is: OpenCheckpoint,
  was: OpenCheckpoint,
  job: JobSpec,
  lineage: readonly Descent[],
): ProofLeaf[] {
  const theirs = restoredMetrics(was.manifest);
  const ours = withoutOwnPoint(restoredMetrics(is.manifest), theirs);
  const isStale = job.model.tables.some(({ staleness }) => staleness > 0);
  if (isStale && ours.freshSteps !== theirs.freshSteps) {
    const interval = `Training of generations ${lineage.map(({ generation }) => generation)}`;
    const why =
      "the run paused at steps that no checkpoint records; stale tables were read fresh there";
    throw new NotReplayableError(interval, why);
  }
  return series.map((key) => {
    const name = `metrics.${key}`;
    if (isDeepStrictEqual(ours[key], theirs[key])) return { name, isEqual: true };
    return { name, isEqual: false, difference: differenceOf(key, ours, theirs) };
  });
}

function differenceOf(key: (typeof series)[number], ours: RunMetrics, theirs: RunMetrics): string {
  if (key !== "history")
    return `${JSON.stringify(theirs[key])}, replayed ${JSON.stringify(ours[key])}`;
  const at = theirs.history.findIndex((point, i) => !isDeepStrictEqual(point, ours.history[i]));
  return `other figures from step ${theirs.history[at]?.step ?? ours.history.at(-1)?.step} on`;
}

/**
 * Removes the replay's point of the history for a checkpoint that the run made only because its
 * devices changed: such a checkpoint has no point there.
 */
function withoutOwnPoint(ours: RunMetrics, theirs: RunMetrics): RunMetrics {
  const last = ours.history.at(-1);
  if (last === undefined || theirs.history.at(-1)?.step === last.step) return ours;
  const { lossSum, lossSteps } = theirs;
  const isSame = last.trainLoss === (lossSteps === 0 ? 0 : lossSum / lossSteps);
  const sums = isSame ? { lossSum, lossSteps } : { lossSum: Number.NaN, lossSteps };
  return { ...ours, history: ours.history.slice(0, -1), ...sums };
}
