// Warm starts: resolves the checkpoint that a job begins with, and adopts it as the first
// checkpoint in the job's own directory. After that the earlier run's directory may change or be
// removed.

import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import { type JobSpec, resolveJob } from "../../src/job/job.ts";
import { checkFit } from "../../src/job/warm-start-fit.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { absoluteName, isObjectAddress } from "../../src/ports/object-store.ts";
import { progressOf } from "../disk/progress.ts";
import { jobOf, openCheckpoint } from "./open-checkpoint.ts";
import { digestOfParts } from "./part-digest.ts";
import { copyFile, hold } from "./pinned-checkpoint.ts";
import type { CheckpointStore, Manifest, PartRecord } from "./store/checkpoint-store.ts";
import { isModelFile, needState } from "./store/file-checkpoint-store.ts";
import { partPlaceOf } from "./store/open-parts.ts";
import { hasStore, openExistingStore } from "./store/open-store.ts";
import { filesNeeded } from "./store/part-index.ts";
import { pathsOf } from "./store/store-paths.ts";

/**
 * Returns the job with `warmStart` completed by the step and the digest of its checkpoint. If the
 * source directory is gone but the job has already begun, the values recorded in its own directory
 * are used.
 * @throws CheckpointMissingError, CheckpointCorruptError; InvalidOptionError where the model does
 * not fit, or the job names another digest
 */
export function withWarmStart(job: JobSpec, disk: Disk = realDisk): JobSpec {
  const { warmStart, checkpoint } = job;
  if (warmStart === undefined) return job;
  if (absoluteName(warmStart.from) === absoluteName(checkpoint.directory)) {
    const message = `Expected \`warmStart.from\` to be another directory than ${warmStart.from}`;
    throw new InvalidOptionError(
      "warmStart.from",
      `${message}, which is \`checkpoint.directory\`: a warm start is a new run`,
    );
  }
  const begun = begunWith(job, disk);
  if (begun?.digest !== undefined && begun.digest === warmStart.digest) return job; // Resubmitted.
  if (begun !== undefined && !hasStore(warmStart.from, disk)) {
    return resolveJob({ ...job, warmStart: begun });
  }
  const source = openCheckpoint(warmStart.from, warmStart.checkpoint, disk);
  needState(source.store, "training");
  checkFit(source.job, job);
  const { cut: step, modelDigest } = source.manifest;
  const digest = `sha256:${modelDigest}`;
  if (warmStart.digest !== undefined && warmStart.digest !== digest) {
    const message = `Expected \`warmStart.digest\` to be left out, or that of ${warmStart.from}`;
    throw new InvalidOptionError("warmStart.digest", `${message}, ${digest}`);
  }
  return resolveJob({ ...job, warmStart: { ...warmStart, step, digest } });
}

/** The recorded warm start of the run in the job's own directory, if it has the same source. */
function begunWith({ checkpoint, warmStart }: JobSpec, disk: Disk) {
  if (!hasStore(checkpoint.directory, disk)) return undefined;
  const { warmStart: begun } = jobOf(openExistingStore(checkpoint.directory, disk));
  return begun?.from === warmStart?.from ? begun : undefined;
}

/**
 * Commits the warm-start checkpoint as the first one of `store`, with hard links to its files, or
 * copies where there are no links. `disk`: the machine's, with its object stores.
 * @throws InputUnusableError where the checkpoint has changed since the job was submitted
 */
export async function adoptCheckpoint(
  store: CheckpointStore,
  generation: number,
  { name, warmStart, checkpoint }: JobSpec,
  arithmetic: string,
  disk: Disk = realDisk,
): Promise<Manifest> {
  if (warmStart === undefined) throw new RangeError("The job has no warm start");
  const { from, digest, step } = warmStart;
  const { manifest, store: source, job } = openCheckpoint(from, warmStart.checkpoint, disk);
  if (`sha256:${manifest.modelDigest}` !== digest || manifest.cut !== step) {
    const message = `Expected the checkpoint of step ${step} (${digest}) in ${from}, which has changed`;
    throw new InputUnusableError(from, `${message}: submit the job again`);
  }
  const { directory } = checkpoint;
  const parts = isModelFile(from, disk)
    ? copyParts(source, manifest, store, generation)
    : isObjectAddress(from) || isObjectAddress(directory)
      ? copyFiles(from, manifest, directory, generation, disk)
      : linkParts(from, manifest, directory, generation);
  if (!isModelFile(from, disk) && !isObjectAddress(directory)) {
    syncNames(manifest, directory, generation, disk);
  }
  // Weights in fewer bits have another digest than the model that their manifest describes.
  const modelDigest =
    job.checkpoint.bits === 32
      ? manifest.modelDigest
      : await digestOfParts(
          { store, job, manifest: { ...manifest, generation, parts } },
          progressOf({}),
        );
  return store.commit({
    run: name,
    cut: manifest.cut,
    generation,
    parts,
    modelDigest,
    arithmetic,
    ...(manifest.sets && { sets: manifest.sets }),
    // Else a run that is cancelled before its first step would save this step over these files.
    metrics: { savedStep: manifest.cut },
    means: manifest.means,
    position: { step: manifest.cut },
    best: false,
    createdBy: `a warm start from ${from}`,
  });
}

/** Links the files of a checkpoint and of its base into directory `to`. */
function linkParts(from: string, manifest: Manifest, to: string, generation: number) {
  const [source, target] = [pathsOf(from), pathsOf(to)];
  for (const { cut, generation: of, file, isOwn } of filesNeeded(manifest)) {
    hold(source.file(cut, of, file), target.file(cut, isOwn ? generation : of, file));
  }
  return manifest.parts;
}

/** Makes the names of these files durable; a commit does so only in the checkpoint's directory. */
function syncNames(manifest: Manifest, to: string, generation: number, disk: Disk): void {
  const { checkpoint } = pathsOf(to);
  for (const { cut, generation: of, isOwn } of filesNeeded(manifest)) {
    disk.syncDirectory(checkpoint(cut, isOwn ? generation : of));
  }
}

/** Copies the files of a checkpoint and of its base to `to`, from or to an object store. */
function copyFiles(from: string, manifest: Manifest, to: string, generation: number, disk: Disk) {
  const [source, target] = [partPlaceOf(from, disk), partPlaceOf(to, disk)];
  for (const { cut, generation: of, file, isOwn } of filesNeeded(manifest)) {
    const copy = target.newFile(cut, isOwn ? generation : of, file);
    copyFile(source, source.paths.file(cut, of, file), copy);
  }
  return manifest.parts;
}

/** Copies the parts out of a model file. */
function copyParts(
  source: CheckpointStore,
  manifest: Manifest,
  target: CheckpointStore,
  generation: number,
): PartRecord[] {
  const writer = target.packWriter(generation, manifest.cut, "adopted");
  try {
    const parts = manifest.parts.map(({ name }) => {
      writer.begin(name);
      for (const piece of source.readPart(manifest, name)) writer.write(piece);
      return writer.end();
    });
    writer.finish();
    return parts;
  } finally {
    writer.discard();
  }
}
