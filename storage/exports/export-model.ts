// Takes a trained model out of a checkpoint in one file, for programs that know nothing of
// checkpoints. Tables are read as streams; the file gets its name only when all of it is right and
// on disk.

import { InputUnusableError, InvalidOptionError } from "../../src/errors/errors.ts";
import { expected } from "../../src/ports/check-options.ts";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { progressOf } from "../disk/progress.ts";
import {
  type Making,
  unfinishedBytes,
  unfinishedSuffix,
  writeResumable,
} from "../disk/resumable-file.ts";
import type { ForeignKind } from "../dlrm-names/counterpart.ts";
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
   * Of ONNX: what inputs have of categorical features. `rows`: rows of tables; `raw`: ids as the
   * columns have them, and the model makes the rows, of all features for which ONNX can say how.
   * @default "rows"
   */
  readonly ids?: InputIds | undefined;
  /**
   * Of ONNX: the most bytes of all weights that lie in the model itself; with more, the tables lie
   * in `FILE.data` beside it. @default somewhat below 2 GiB, the limit of the format
   */
  readonly inlineBytesMax?: number | undefined;
  /**
   * Of `.osiris`: whether the file has the optimizer's state of each element too, so that training
   * can go on from it (`warmStart`). Rows' own state, as row-wise Adagrad's, is always in it. Of
   * `.pt`: whether it has the state of the optimizer. @default false
   */
  readonly withOptimizer?: boolean | undefined;
  /** Whether to begin anew where an export that was stopped would go on. @default false */
  readonly restart?: boolean | undefined;
  /** Bytes between two marks from which a stopped export goes on. @default 256 MiB */
  readonly markBytes?: number | undefined;
}

/** The result of `exportModel`. */
export interface ModelExportReport {
  readonly file: string;
  readonly format: "safetensors" | "onnx" | "osiris" | "dlrm" | "torchrec";
  /** Of ONNX: the tables, where a model is too large for one file; it belongs beside it. */
  readonly dataFile: string | undefined;
  /** Of ONNX: the file beside the model that says what its inputs are made of. */
  readonly inputs: InputsFile | undefined;
  /** Bytes of the file, or, with `dataFile`, of both. */
  readonly bytes: number;
  /** Bytes that an earlier command, which was stopped, had written; 0: none. */
  readonly resumedAt: number;
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
 * Writes the model of a checkpoint directory, or of a file ending in `.osiris`, to `path`, whose
 * ending, or `format`, gives the format: `.safetensors`, `.onnx`, `.osiris`, `.pt`. Some MiB are in
 * memory at a time, however large the tables are. An export of the same checkpoint that was killed,
 * aborted or had no room left `path.part` and `path.part.json`: this one goes on from its last
 * mark.
 * @throws InputUnusableError where `path` has another ending or cannot be written
 * @throws InvalidOptionError where the format has no place for something of the model, or no
 * feature can have the raw ids that are asked for
 * @throws CheckpointMissingError, CheckpointCorruptError
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
    const { of, ...making } = makingOf(model, options);
    const own = { ...making, of: { ...of, kind }, mark: pytorchMark };
    const progress = progressOf(options);
    const made = await writeResumable(disk, path, own, (unfinished) =>
      writePyTorch(unfinished, model, progress, {
        ...{ kind, withOptimizer: options.withOptimizer ?? false },
        everyBytes: options.markBytes,
      }),
    );
    return { ...made, dataFile: undefined, inputs: undefined };
  };
}

/** A file that a stopped export to `path` left, and the bytes that need not be written again. */
export function unfinishedExport(path: string, disk = realDisk) {
  const files = [path, `${path}.data`].map((file) => {
    return { file: file + unfinishedSuffix, bytes: unfinishedBytes(disk, file) };
  });
  return files.find(({ bytes }) => bytes > 0);
}

/** What decides the bytes of a file: the checkpoint, and the options that its format has. */
function makingOf(model: ExportedModel, options: ModelExportOptions): Making<PieceMark> {
  const { withOptimizer = false, inlineBytesMax = 0, ids, restart = false, signal } = options;
  const manifest = model.checkpoint.manifest.sha256;
  const { calibration } = model.notes;
  const known = { layout: layoutVersion, manifest, withOptimizer, inlineBytesMax };
  const raw = ids === "raw" && { ids };
  const of = { ...known, ...raw, ...(calibration !== undefined && { calibration }) };
  return { of, mark: pieceMark, restart, signal };
}

/** To be raised with every change of how files are laid out: no file is of two layouts. */
const layoutVersion = 1;

/** @throws InvalidOptionError where only a model of ONNX could have such inputs */
function checkIds(path: string, format: ModelExportReport["format"], ids: InputIds = "rows"): void {
  if (!inputIds.includes(ids)) throw expected("ids", "`rows` or `raw`", ids);
  if (ids === "rows" || format === "onnx") return;
  const message = `Expected a file ending in \`.onnx\` with \`ids: raw\`, got ${path}`;
  throw new InvalidOptionError("ids", `${message}: others have tables, and no inputs`);
}

/** Formats that an ending says; a file of PyTorch may have the names of two programs. */
const endings = ["safetensors", "onnx", "osiris"] as const;

/** @throws InputUnusableError where neither the option nor the path's ending says the format */
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
