// Exports a trained model from a checkpoint to one file, for programs that do not read checkpoints.
// Tables are read as streams; the file is renamed to its final name once it is complete, verified
// and on disk.

import {
  type Disk,
  expected,
  InputUnusableError,
  InvalidOptionError,
  type Making,
  progressOf,
  realDisk,
  unfinishedBytes,
  unfinishedSuffix,
  writeResumable,
} from "../../../internal.ts";
import type { ForeignKind } from "../dlrm-names/foreign-tensors.ts";
import { type ExportedModel, type ExportedOptions, openExported } from "./exported-model.ts";
import { type PieceMark, pieceMark } from "./file-pieces.ts";
import type { InputsFile } from "./onnx/inputs-file.ts";
import { type InputIds, inputIds } from "./onnx/raw-ids.ts";
import { writeSafetensors } from "./safetensors-model.ts";

/** Options of `exportModel`. */
export interface ModelExportOptions extends ExportedOptions {
  /**
   * `dlrm`, `torchrec`: a state dict of PyTorch, for facebookresearch/dlrm or for TorchRec, as a
   * `.pt`. @default by the ending of the path
   */
  readonly format?: ModelExportReport["format"] | undefined;
  /**
   * For ONNX: what the model takes as input of categorical features. `rows`: row indices of tables.
   * `raw`: ids as in the data's columns, which the model maps to rows, for every feature whose
   * mapping ONNX can express.
   * @default "rows"
   */
  readonly ids?: InputIds | undefined;
  /**
   * For ONNX: most bytes of weights that are stored in the model file itself; with more, tables are
   * stored in `FILE.data` beside it. @default somewhat below 2 GiB, the limit of the format
   */
  readonly inlineBytesMax?: number | undefined;
  /**
   * For `.osiris`: whether the file includes the optimizer's state per element, so that training
   * can continue from it (`warmStart`). State per row, such as row-wise Adagrad's, is always
   * included. For `.pt`: whether the file includes the optimizer's state. @default false
   */
  readonly withOptimizer?: boolean | undefined;
  /** Whether to start again instead of resuming an interrupted export. @default false */
  readonly restart?: boolean | undefined;
  /** Bytes between two marks from which an interrupted export can resume. @default 256 MiB */
  readonly markBytes?: number | undefined;
}

/** The result of `exportModel`. */
export interface ModelExportReport {
  readonly file: string;
  readonly format: "safetensors" | "onnx" | "osiris" | "dlrm" | "torchrec";
  /** For ONNX: the file with the tables, if the model is too large for one file. Keep both. */
  readonly dataFile: string | undefined;
  /** For ONNX: the file beside the model that describes how its inputs are computed. */
  readonly inputs: InputsFile | undefined;
  /** Bytes of the file, or, with `dataFile`, of both. */
  readonly bytes: number;
  /** The byte from which an interrupted export was resumed; 0: it was not. */
  readonly resumedAt: number;
  /** Number of dense parameters, including running statistics. */
  readonly parameters: number;
  /** Tables with all of their rows. */
  readonly tables: readonly {
    readonly name: string;
    readonly rows: number;
    readonly dim: number;
  }[];
  /** Step number of the checkpoint. */
  readonly cut: number;
  /** Digest of the model, as in a run's result. */
  readonly digest: string;
  /** Hash of the checkpoint's manifest. */
  readonly manifest: string;
}

/**
 * Writes the model of a checkpoint directory, or of a file ending in `.osiris`, to `path`. The
 * ending of `path`, or `format`, selects the format: `.safetensors`, `.onnx`, `.osiris`, `.pt`. It
 * uses a few MiB of memory, however large the tables are. An earlier export of the same checkpoint
 * that was killed, aborted or ran out of disk space has left `path.part` and `path.part.json`; this
 * call resumes from its last mark.
 * @throws InputUnusableError where `path` has another ending or cannot be written
 * @throws InvalidOptionError where the format cannot represent the model, or raw ids are requested
 * and no feature supports them
 * @throws CheckpointMissingError, CheckpointCorruptError, PathForbiddenError (as `loadModel`)
 */
export async function exportModel(
  directory: string,
  path: string,
  options: ModelExportOptions = {},
): Promise<ModelExportReport> {
  const { disk = realDisk } = options;
  const format = formatOf(path, options.format);
  checkIds(path, format, options.ids);
  const model = openExported(directory, options);
  const written = await formats[format](disk, path, model, { ...options, format });
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
type Written = Pick<ModelExportReport, "bytes" | "dataFile" | "inputs" | "resumedAt">;

type Writer = (
  disk: Disk,
  path: string,
  model: ExportedModel,
  options: ModelExportOptions,
) => Promise<Written>;

const formats: Readonly<Record<ModelExportReport["format"], Writer>> = {
  async safetensors(disk, path, model, options) {
    const progress = progressOf(options);
    const made = await writeResumable(disk, path, makingOf(model, options), (unfinished) =>
      writeSafetensors(unfinished, model, progress, options.markBytes),
    );
    return { ...made, dataFile: undefined, inputs: undefined };
  },
  async onnx(disk, path, model, options) {
    const { writeOnnx } = await import("./onnx/write-model.ts");
    const { ids, inlineBytesMax: inlineMax, markBytes: everyBytes } = options;
    const making = makingOf(model, options);
    const form = { ids, inlineMax, everyBytes };
    return writeOnnx(disk, path, model, progressOf(options), making, form);
  },
  async osiris(disk, path, model, options) {
    const { osirisMark, writeOsiris } = await import("./osiris-model.ts");
    const { withOptimizer = false, markBytes: everyBytes } = options;
    const making = { ...makingOf(model, options), mark: osirisMark };
    const progress = progressOf(options);
    const made = await writeResumable(disk, path, making, (unfinished) =>
      writeOsiris(unfinished, model, progress, { withOptimizer, everyBytes }),
    );
    return { ...made, dataFile: undefined, inputs: undefined };
  },
  dlrm: pytorch("dlrm"),
  torchrec: pytorch("torchrec"),
};

/** Writes a state dict of PyTorch. */
function pytorch(kind: ForeignKind): Writer {
  return async (disk, path, model, options) => {
    const { pytorchMark, writePyTorch } = await import("./pytorch-model.ts");
    const pytorch = { ...makingOf(model, options), mark: pytorchMark };
    const progress = progressOf(options);
    const made = await writeResumable(disk, path, pytorch, (unfinished) =>
      writePyTorch(unfinished, model, progress, {
        ...{ kind, withOptimizer: options.withOptimizer ?? false },
        everyBytes: options.markBytes,
      }),
    );
    return { ...made, dataFile: undefined, inputs: undefined };
  };
}

/**
 * The unfinished file of an interrupted export to `path`, and the bytes up to its last mark;
 * undefined: nothing to resume.
 */
export function unfinishedExport(path: string, disk = realDisk) {
  const files = [path, `${path}.data`].map((file) => {
    return { file: file + unfinishedSuffix, bytes: unfinishedBytes(disk, file) };
  });
  return files.find(({ bytes }) => bytes > 0);
}

/**
 * The inputs that decide a file's bytes: the checkpoint, the format, as `--format` may name another
 * than the file's ending, and the format's options.
 */
function makingOf(model: ExportedModel, options: ModelExportOptions): Making<PieceMark> {
  const { format = "", ids, restart = false, signal } = options;
  const { withOptimizer = false, inlineBytesMax = 0 } = options;
  const manifest = model.checkpoint.manifest.sha256;
  const { calibration } = model.notes;
  const known = { layout: layoutVersion, format, manifest, withOptimizer, inlineBytesMax };
  const raw = ids === "raw" && { ids };
  const of = { ...known, ...raw, ...(calibration !== undefined && { calibration }) };
  return { of, mark: pieceMark, restart, signal };
}

/**
 * Increment it with every change of a file layout, so that no unfinished file of another version is
 * resumed.
 */
const layoutVersion = 2;

/** @throws InvalidOptionError where raw ids are requested of another format than ONNX */
function checkIds(path: string, format: ModelExportReport["format"], ids: InputIds = "rows"): void {
  if (!inputIds.includes(ids)) throw expected("ids", "`rows` or `raw`", ids);
  if (ids === "rows" || format === "onnx") return;
  const message = `Expected a file ending in \`.onnx\` with \`ids: raw\`, got ${path}`;
  throw new InvalidOptionError("ids", `${message}: others have tables, and no inputs`);
}

/** Formats that the ending determines; `.pt` does not, as two programs' names are supported. */
const endings = ["safetensors", "onnx", "osiris"] as const;

/** @throws InputUnusableError where neither the option nor the path's ending names the format */
function formatOf(
  path: string,
  asked: ModelExportReport["format"] | undefined,
): ModelExportReport["format"] {
  const known = Object.keys(formats);
  if (asked !== undefined && !known.includes(asked)) {
    throw expected("format", `one of ${known.join(", ")}`, asked);
  }
  const format = asked ?? endings.find((ending) => path.endsWith(`.${ending}`));
  if (format !== undefined) return format;
  const message = /\.(pt|pth)$/.test(path)
    ? "Expected the format `dlrm` (facebookresearch/dlrm) or `torchrec` (`--format`) for"
    : "Expected a file ending in `.safetensors`, `.onnx`, `.osiris` or `.pt`, got";
  throw new InputUnusableError(path, `${message} ${path}`);
}
