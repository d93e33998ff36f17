// Imports a model of another program as a checkpoint: tables and dense parameters by name, and the
// optimizer's state if it fits the job. The checkpoint exists when its manifest does. Tables pass
// through in pieces.
//
// Invariants
//   I1. Names, shapes and types of all tensors are checked before the first byte is written.
//   I2. If the import fails or is aborted, the directory is restored (new-checkpoint.ts).

import {
  checkEmpty,
  type Disk,
  densePart,
  InputUnusableError,
  InvalidOptionError,
  type JobOptions,
  type JobSpec,
  jobIdentity,
  newCheckpoint,
  openKernels,
  type ProgressOptions,
  progressOf,
  realDisk,
  zipMagic,
} from "../../../internal.ts";
import type { NamesKind } from "../dlrm-names/foreign-tensors.ts";
import { openSafetensors } from "../safetensors/safetensors-file.ts";
import { legacyMagic } from "../torch/read-torch-file.ts";
import { densePieces, type Importing, idsPart, tablePartOf, tablePieces } from "./encode-parts.ts";
import { checkJobFile, writeJob } from "./imported-job.ts";
import { type ReadModel, readModel } from "./match-model.ts";
import { openOnnx } from "./onnx-source.ts";
import type { StateReport } from "./optimizer-state.ts";
import { openPyTorch } from "./pytorch-source.ts";
import type { Counts, TensorSource } from "./tensor-source.ts";

export interface ModelImportOptions extends ProgressOptions {
  /** Directory of the new checkpoint, new or empty. */
  readonly out: string;
  /**
   * The job that the model belongs to. @default the job in the file, if Osiris exported it, else a
   * job derived from the shapes of the tensors
   */
  readonly job?: JobOptions | undefined;
  /** The program that named the tensors. @default recognised by the names */
  readonly from?: NamesKind | undefined;
  /** Whether to ignore the file's optimizer state and start with a new one. @default false */
  readonly isFresh?: boolean | undefined;
  /** Path of a new YAML job file that continues to train the model. @default none */
  readonly writeJob?: string | undefined;
}

/** The result of `importModel`. */
export interface ModelImportReport {
  readonly directory: string;
  readonly file: string;
  readonly format: "PyTorch" | "safetensors" | "ONNX";
  readonly names: NamesKind;
  /** The job of the new checkpoint: given, found in the file or derived. */
  readonly job: JobOptions;
  /** Source of the job: `given`, found in the `file`, or derived from its `shapes`. */
  readonly jobFrom: "given" | "file" | "shapes";
  /** Number of dense parameters, including running statistics. */
  readonly parameters: number;
  readonly tables: readonly {
    readonly name: string;
    readonly rows: number;
    readonly dim: number;
  }[];
  /** Element types in the file; all but float32 were converted. */
  readonly types: readonly string[];
  /** Numbers that float32 cannot hold exactly: they were rounded to nearest. */
  readonly rounded: number;
  /** Rows that a table's precision cannot hold exactly: they were rounded to nearest. */
  readonly roundedRows: number;
  /** NaN and infinities among the weights, which were kept. */
  readonly notFinite: number;
  readonly optimizer: { readonly dense: StateReport; readonly sparse: StateReport };
  /** Step number of the checkpoint: that of the optimizer's state, else 0. */
  readonly cut: number;
  /** Hash of the manifest. */
  readonly manifest: string;
  /** Digest of the model: `sha256:…`. */
  readonly digest: string;
}

/**
 * Makes a checkpoint in `out` from a file: a torch.save file with the state dict of
 * facebookresearch/dlrm or of TorchRec's DLRM or DLRM_DCN; a safetensors file with such names, or
 * with those of `exportModel`; or an ONNX model from `exportModel`. `loadModel` loads the
 * checkpoint, and a job can continue from it with `warmStart`.
 * @throws InputUnusableError (of the file or the directory), InvalidOptionError (the job does not
 * fit the tensors), StoreFailedError
 */
export async function importModel(
  path: string,
  options: ModelImportOptions,
): Promise<ModelImportReport> {
  const { disk = realDisk, out, from, isFresh = false } = options;
  checkEmpty(out, disk);
  if (options.writeJob !== undefined) checkJobFile(options.writeJob, disk);
  const source = openSource(path, disk);
  try {
    const model = readModel(source, { from, isFresh, job: options.job });
    const report = await write(model, out, disk, options);
    if (options.writeJob !== undefined) {
      const about = { file: path, directory: out, isMade: report.jobFrom === "shapes" };
      await writeJob(options.writeJob, report.job, about, disk);
    }
    return report;
  } finally {
    source.close();
  }
}

/**
 * Opens a file of tensors; the format is recognised by the first bytes, not by the name.
 * @throws InputUnusableError where the file cannot be read, or is of no known format
 */
export function openSource(path: string, disk: Disk): TensorSource {
  let file: ReturnType<Disk["open"]>;
  try {
    file = disk.open(path, "read");
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.replace(/, \w+ '.*$/, "") : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${why}`, { cause });
  }
  try {
    const head = new Uint8Array(16);
    const count = file.read(head, 0);
    const begins = (magic: Uint8Array) => magic.every((byte, i) => head[i] === byte);
    if (begins(zipMagic)) return openPyTorch(file, path);
    if (begins(legacyMagic)) {
      const message = `Expected ${path} in the format of PyTorch 1.6 and later, got an earlier one`;
      throw new InputUnusableError(path, `${message}: load it and save it again with torch.save`);
    }
    // Safetensors: a JSON header after 8 bytes with its length.
    if (count > 8 && head[8] === 0x7b) return openSafetensors(file, path);
    // ONNX: begins with field 1, the IR version, which is a small number.
    if (head[0] === 0x08 && (head[1] ?? 0) < 0x40) return openOnnx(file, path, disk);
    const message =
      `Expected ${path} to be a file of torch.save (.pt), of safetensors, or an ONNX model that ` +
      "`osiris export` wrote";
    throw new InputUnusableError(path, `${message}; its first bytes are of none of them`);
  } catch (error) {
    file.close();
    throw error;
  }
}

async function write(
  model: ReadModel,
  out: string,
  disk: Disk,
  options: ProgressOptions,
): Promise<ModelImportReport> {
  const { source, job, state, kind } = model;
  const progress = progressOf(options);
  const counts: Counts & { roundedRows: number } = { rounded: 0, notFinite: 0, roundedRows: 0 };
  const importing: Importing = { ...model, progress, counts };
  const { step } = state;
  checkStep(job, step);
  const { arithmetic, set } = openKernels(job.arithmetic);
  const fields = {
    run: job.name,
    cut: step,
    arithmetic,
    sets: [set],
    metrics: null,
    position: { step },
    ...(model.means && { means: model.means }),
    best: false,
    createdBy: `import of ${source.format} by ${process.pid}`,
  };
  const made = { job, jobIdentity: jobIdentity(job), jobText: JSON.stringify(job), fields };
  const manifest = await newCheckpoint(out, made, { disk, progress }, async (part) => {
    await part(densePart, densePieces(importing));
    for (const table of job.model.tables.keys()) {
      await part(tablePartOf(job, table), tablePieces(importing, table));
      const ids = idsPart(importing, table);
      if (ids !== undefined) await part(ids.name, [ids.bytes]);
    }
  });
  return {
    directory: out,
    file: source.path,
    format: source.format,
    names: kind,
    job: model.options,
    jobFrom: model.jobFrom,
    parameters: model.layout.length,
    tables: job.model.tables.map(({ name, rows, dim }) => ({ name, rows, dim })),
    types: model.types,
    ...counts,
    optimizer: { dense: state.dense, sparse: state.sparse },
    cut: step,
    manifest: manifest.sha256,
    digest: `sha256:${manifest.modelDigest}`,
  };
}

/** @throws InvalidOptionError where rows are stored as multiples that depend on the step */
function checkStep({ model }: JobSpec, step: number): void {
  const table = model.tables.find(({ l2Scope }) => l2Scope === "decayed");
  if (step === 0 || table === undefined) return;
  const message =
    `Expected no table with \`l2Scope: "decayed"\` where the state of the optimizer is that of step ` +
    `${step}, got \`${table.name}\`: reset the state, with \`--fresh\``;
  throw new InvalidOptionError("model.tables", message);
}
