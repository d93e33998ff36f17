// Takes a trained model out of a checkpoint in one file, for programs that know nothing of
// checkpoints. Tables are read as streams; the file gets its name only when all of it is right and
// on disk.

import { InputUnusableError } from "../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { progressOf } from "../disk/progress.ts";
import { writeWhole } from "../disk/whole-file.ts";
import { type ExportedModel, type ExportedOptions, openExported } from "./exported-model.ts";
import { writeSafetensors } from "./safetensors-model.ts";

/** Options of `exportModel`. */
export interface ModelExportOptions extends ExportedOptions {
  /**
   * Of ONNX: the most bytes of all weights that lie in the model itself; with more, the tables lie
   * in `FILE.data` beside it. @default somewhat below 2 GiB, the limit of the format
   */
  readonly inlineBytesMax?: number | undefined;
}

/** The result of `exportModel`. */
export interface ModelExportReport {
  readonly file: string;
  readonly format: "safetensors" | "onnx";
  /** Of ONNX: the tables, where a model is too large for one file; it belongs beside it. */
  readonly dataFile: string | undefined;
  /** Bytes of the file, or of both. */
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
 * `.safetensors` or `.onnx`. Some MiB are in memory at a time, however large the tables are.
 * @throws InputUnusableError where `path` has another ending or cannot be written
 * @throws InvalidOptionError where the format has no place for something of the model
 * @throws CheckpointMissingError, CheckpointCorruptError
 */
export async function exportModel(
  directory: string,
  path: string,
  options: ModelExportOptions = {},
): Promise<ModelExportReport> {
  const { disk = realDisk } = options;
  const format = formatOf(path);
  const model = openExported(directory, options);
  const written = await formats[format](disk, path, model, options);
  const { manifest } = model.checkpoint;
  return {
    file: path,
    format,
    ...written,
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

/** The files that were written, and their bytes. */
type Written = Pick<ModelExportReport, "bytes" | "dataFile">;

type Writer = (
  disk: Disk,
  path: string,
  model: ExportedModel,
  options: ModelExportOptions,
) => Promise<Written>;

const formats: Readonly<Record<ModelExportReport["format"], Writer>> = {
  async safetensors(disk, path, model, options) {
    const progress = progressOf(options);
    const bytes = await writeWhole(disk, path, (file) => writeSafetensors(file, model, progress));
    return { bytes, dataFile: undefined };
  },
  async onnx(disk, path, model, options) {
    const { writeOnnx } = await import("./onnx/write-model.ts");
    return writeOnnx(disk, path, model, progressOf(options), options.inlineBytesMax);
  },
};

/** @throws InputUnusableError where the path has no ending that says the format */
function formatOf(path: string): ModelExportReport["format"] {
  if (path.endsWith(".safetensors")) return "safetensors";
  if (path.endsWith(".onnx")) return "onnx";
  const message = `Expected a file ending in \`.safetensors\` or \`.onnx\`, got ${path}`;
  throw new InputUnusableError(path, message);
}
