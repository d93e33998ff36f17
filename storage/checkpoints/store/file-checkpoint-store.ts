// A read-only checkpoint store over a model file (model-file.ts), which holds one checkpoint. So
// all code that reads a checkpoint directory can read such a file too.

import { dirname } from "node:path";
import { rowsWithState } from "../../../src/embedding/checkpoint/rows-part.ts";
import {
  CheckpointCorruptError,
  CheckpointMissingError,
  InputUnusableError,
} from "../../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../../src/ports/disk.ts";
import { onDisk, temporarySuffix } from "../../disk/durable-files.ts";
import type { CheckpointStore, Manifest, PartRecord } from "./checkpoint-store.ts";
import { decodeManifest } from "./manifest.ts";
import {
  chunkBytes,
  endOf,
  type Footer,
  hashOf,
  modelFileEnding,
  paddedBytes,
  pageBytes,
  readFooter,
  readSection,
  type Section,
} from "./model-file.ts";
import { pathsOf } from "./store-paths.ts";
import { checkedCalibration } from "./stored-calibration.ts";

/** Whether `path` is a model file, by its ending, rather than a checkpoint directory. */
export function isModelFile(path: string, disk: Disk): boolean {
  return path.endsWith(modelFileEnding) && disk.exists(path) && !disk.exists(pathsOf(path).job);
}

/** The footer of a model file. @throws CheckpointCorruptError, InputUnusableError */
export function footerOf(path: string, disk: Disk): Footer {
  return withFile(path, disk, (file) => readFooter(file));
}

/** The store of a model file. @throws CheckpointCorruptError, InputUnusableError */
export function openFileStore(path: string, disk: Disk): CheckpointStore {
  const footer = footerOf(path, disk);
  const manifest = manifestIn(footer, path);
  const refuse = (): never => {
    const message = `Expected a checkpoint directory to write to, but ${path} is a file of one model`;
    throw new InputUnusableError(path, `${message}; name a directory`);
  };
  const sectionOf = (name: string): Section => {
    const found = footer.sections.find((one) => one.name === name);
    if (found === undefined) throw new CheckpointMissingError(`${path}: no part \`${name}\``);
    return found;
  };
  const read = (name: string) => partIn(path, disk, footer, sectionOf(name));
  return {
    directory: path,
    jobText: footer.job,
    statedDigests: new Map(
      footer.tables.flatMap(({ leftOut, digest }, i) => (leftOut === 0 ? [] : [[i, digest]])),
    ),
    beginGeneration: refuse,
    partWriter: refuse,
    commit: refuse,
    collect: refuse,
    latest: () => manifest,
    list: () => ({ manifests: [manifest], damaged: [] }),
    manifestText: () => new TextEncoder().encode(footer.manifest),
    calibration: (modelDigest) => {
      // A model after deltas has another digest; the file's calibration is not for it.
      if (modelDigest !== manifest.modelDigest) return undefined;
      const { calibration } = disk.exists(path) ? footerOf(path, disk) : footer;
      return calibration && checkedCalibration(calibration, modelDigest, path);
    },
    setCalibration: (_, calibration) => replaceFooter(path, disk, { ...footer, calibration }),
    verify() {
      for (const { name } of footer.sections)
        for (const _ of storedIn(path, disk, sectionOf(name)));
    },
    readPart: (_, name) => read(name),
    readWholePart: (_, name) => {
      return new Uint8Array(Buffer.concat(Array.from(read(name), (piece) => piece.slice())));
    },
    readFiles: (_, name) => [read(name)],
  };
}

/** The manifest of the exported checkpoint, with the file's sections as its parts. */
function manifestIn({ manifest: text, jobIdentity, sections }: Footer, path: string): Manifest {
  const manifest = decodeManifest(new TextEncoder().encode(text), path);
  if (manifest.jobIdentity !== jobIdentity) {
    throw new CheckpointCorruptError(path, "its manifest is of another job");
  }
  const parts = sections.map(({ name, bytes, chunks }): PartRecord => {
    return { name, bytes, sha256: hashOf(Buffer.from(chunks.join(""), "hex")), base: [] };
  });
  return { ...manifest, parts };
}

/** The bytes of a part as a checkpoint directory would have them, omitted state as zeros. */
function* partIn(
  path: string,
  disk: Disk,
  { tables }: Footer,
  section: Section,
): Generator<Uint8Array, void, undefined> {
  const [, table = "-1"] = /^table-(\d{5})$/.exec(section.name) ?? [];
  const pieces = storedIn(path, disk, section);
  const { leftOut = 0 } = tables[Number(table)] ?? {};
  if (leftOut === 0) return yield* pieces;
  yield* rowsWithState(pieces, { perElement: leftOut, path });
}

/** The bytes of a section as stored. The file stays open during the iteration. */
function* storedIn(
  path: string,
  disk: Disk,
  section: Section,
): Generator<Uint8Array, void, undefined> {
  const file = onDisk("read", path, () => disk.open(path, "read"));
  try {
    yield* readSection(file, section);
  } finally {
    file.close();
  }
}

/** Rewrites the file with another footer, atomically: copy, then rename. */
function replaceFooter(path: string, disk: Disk, { sha256: _, version: __, ...footer }: Footer) {
  const temporary = `${path}.${disk.writer}${temporarySuffix}`;
  const last = footer.sections.at(-1);
  const end = last === undefined ? pageBytes : last.first + paddedBytes(last.bytes);
  onDisk("write", path, () => {
    try {
      const to = disk.open(temporary, "write");
      try {
        withFile(path, disk, (from) => {
          const buffer = new Uint8Array(Math.min(chunkBytes, end));
          for (let at = 0; at < end; at += buffer.length) {
            const piece = buffer.subarray(0, end - at);
            if (from.read(piece, at) < piece.length) {
              throw new CheckpointCorruptError(path, "it is cut short");
            }
            to.write(piece, at);
          }
        });
        to.write(endOf(footer, end), end);
        to.sync();
      } finally {
        to.close();
      }
      disk.rename(temporary, path);
      disk.syncDirectory(dirname(path));
    } catch (error) {
      disk.remove(temporary);
      throw error;
    }
  });
}

function withFile<Result>(path: string, disk: Disk, body: (file: DiskFile) => Result): Result {
  const file = onDisk("read", path, () => disk.open(path, "read"));
  try {
    return onDisk("read", path, () => body(file));
  } finally {
    file.close();
  }
}

/** @throws InputUnusableError where a store lacks the optimizer state that `purpose` needs */
export function needState({ directory, statedDigests }: CheckpointStore, purpose: string): void {
  if ((statedDigests?.size ?? 0) === 0) return;
  const message = `${directory} was exported without the optimizer's state, which ${purpose} needs`;
  throw new InputUnusableError(directory, `${message}: export the run with \`--with-optimizer\``);
}
