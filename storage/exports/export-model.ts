// Takes a trained model out of a checkpoint in one file, for programs that know nothing of
// checkpoints. Tables are read as streams; the file gets its name only when all of it is right and
// on disk.

import { InputUnusableError } from "../../src/errors/errors.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { progressOf } from "../disk/progress.ts";
import { writeWhole } from "../disk/whole-file.ts";
import { type ExportedOptions, openExported } from "./exported-model.ts";
import { writeSafetensors } from "./safetensors-model.ts";

/** The result of `exportModel`. */
export interface ModelExportReport {
  readonly file: string;
  readonly format: "safetensors";
  /** Bytes of the file. */
  readonly bytes: number;
  /** Dense parameters, running statistics among them. */
  readonly parameters: number;
  /** Tables with all of their rows. */
  readonly tables: readonly {
    readonly name: string;
    readonly rows: number;
    readonly dim: number;
  }[];
  /** Step number of the checkpoint. */
  readonly cut: number;
  /** Of the model, as in a run's result. */
  readonly digest: string;
  /** Hash of the checkpoint's manifest. */
  readonly manifest: string;
}

/**
 * Writes the model of a checkpoint directory to `path`, whose ending gives the format:
 * `.safetensors`. Some MiB are in memory at a time, however large the tables are.
 * @throws InputUnusableError where `path` has another ending or cannot be written
 * @throws CheckpointMissingError, CheckpointCorruptError
 */
export async function exportModel(
  directory: string,
  path: string,
  options: ExportedOptions = {},
): Promise<ModelExportReport> {
  const { disk = realDisk } = options;
  if (!path.endsWith(".safetensors")) {
    const message = `Expected a file ending in \`.safetensors\`, got ${path}`;
    throw new InputUnusableError(path, message);
  }
  const model = openExported(directory, options);
  const progress = progressOf(options);
  const bytes = await writeWhole(disk, path, (file) => writeSafetensors(file, model, progress));
  const { manifest } = model.checkpoint;
  return {
    file: path,
    format: "safetensors",
    bytes,
    parameters: model.graph.layout.length,
    tables: model.tables.map(({ stored: { spec } }) => {
      const { name, rows, dim } = spec;
      return { name, rows, dim };
    }),
    cut: manifest.cut,
    digest: `sha256:${manifest.modelDigest}`,
    manifest: manifest.sha256,
  };
}
