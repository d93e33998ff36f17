// A read-only checkpoint store over a model file (model-file.ts), which holds one checkpoint. So
// all code that reads a checkpoint directory can read such a file too.

import { setImmediate } from "node:timers/promises";
import { CheckpointMissingError, InputUnusableError } from "../../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../../src/ports/disk.ts";
import { isObjectAddress } from "../../../src/ports/object-store.ts";
import { onDisk, rewriteDurably } from "../../disk/durable-files.ts";
import { zipHeader } from "../../disk/write-zip.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import {
  finishModelFile,
  type ModelFile,
  modelFileEnding,
  type PartEntry,
  readChunks,
  readModelFile,
} from "./model-file.ts";
import { pathsOf } from "./store-paths.ts";
import { checkedCalibration, type StoredCalibration } from "./stored-calibration.ts";

/** Whether `path` is a model file, by its ending, rather than a checkpoint directory. */
export function isModelFile(path: string, disk: Disk): boolean {
  if (isObjectAddress(path)) return false;
  return path.endsWith(modelFileEnding) && disk.exists(path) && !disk.exists(pathsOf(path).job);
}

/** A model file without its parts' contents. @throws CheckpointCorruptError, InputUnusableError */
export function modelFileAt(path: string, disk: Disk): ModelFile {
  const file = onDisk("read", path, () => disk.open(path, "read"));
  try {
    return onDisk("read", path, () => readModelFile(file));
  } finally {
    file.close();
  }
}

/** The store of a model file. @throws CheckpointCorruptError, InputUnusableError */
export function openFileStore(path: string, disk: Disk): CheckpointStore {
  const model = modelFileAt(path, disk);
  const { manifest, parts } = model;
  const { statedDigests } = model.proof;
  const refuse = (): never => {
    const message = `Expected a checkpoint directory to write to, but ${path} is a file of one model`;
    throw new InputUnusableError(path, `${message}; name a directory`);
  };
  const byName = new Map(parts.map((part) => [part.name, part]));
  const read = (name: string) => {
    const part = byName.get(name);
    if (part === undefined) throw new CheckpointMissingError(`${path}: no part \`${name}\``);
    return contentsOf(path, disk, part);
  };
  return {
    directory: path,
    jobText: model.jobText,
    ...(statedDigests && { statedDigests }),
    beginGeneration: refuse,
    packWriter: refuse,
    commit: refuse,
    collect: refuse,
    latest: () => manifest,
    list: () => ({ manifests: [manifest], damaged: [] }),
    beginOf: () => undefined,
    checkpoints: () => [],
    manifestText: () => model.manifestText,
    calibration: (modelDigest) => {
      // A model after deltas has another digest; the file's calibration is not for it.
      if (modelDigest !== manifest.modelDigest) return undefined;
      const { calibration } = disk.exists(path) ? modelFileAt(path, disk) : model;
      return calibration === undefined
        ? undefined
        : checkedCalibration(calibration, modelDigest, path);
    },
    setCalibration: (_, calibration) => replaceCalibration(path, disk, model, calibration),
    async verify() {
      for (const part of parts) for (const _ of contentsOf(path, disk, part)) await setImmediate();
    },
    readPart: (_, name) => read(name),
    readWholePart: (_, name) => {
      return new Uint8Array(Buffer.concat(Array.from(read(name), (piece) => piece.slice())));
    },
    readFiles: (_, name) => [read(name)],
  };
}

/** The bytes of a part, in pieces. The file stays open during the iteration. */
function* contentsOf(
  path: string,
  disk: Disk,
  part: PartEntry,
): Generator<Uint8Array, void, undefined> {
  const file = onDisk("read", path, () => disk.open(path, "read"));
  try {
    yield* readChunks(file, part);
  } finally {
    file.close();
  }
}

/** Rewrites the file with another calibration, or without one, atomically. */
function replaceCalibration(
  path: string,
  disk: Disk,
  model: ModelFile,
  calibration: StoredCalibration | undefined,
): void {
  const write = (to: DiskFile) => {
    for (const part of model.parts) {
      to.write(zipHeader(part), part.header);
      let at = part.start;
      for (const piece of contentsOf(path, disk, part)) {
        to.write(piece, at);
        at += piece.length;
      }
    }
    finishModelFile(to, model.parts, model, calibration);
  };
  onDisk("write", path, () => rewriteDurably(disk, path, write, disk.writer));
}

/** @throws InputUnusableError where a store lacks the optimizer state that `purpose` needs */
export function needState({ directory, statedDigests }: CheckpointStore, purpose: string): void {
  if (statedDigests === undefined) return;
  const message = `${directory} was exported without the optimizer's state, which ${purpose} needs`;
  throw new InputUnusableError(directory, `${message}: export the run with \`--with-optimizer\``);
}
