// Writes a model as a PyTorch state dict in float32, with the names and the order of
// facebookresearch/dlrm or TorchRec. Rows pass through in chunks. The checksum of a zip entry
// precedes its data, so it is written after the entry's last byte; a mark contains the checksums so
// far.

import { crc32 } from "node:zlib";
import { z } from "zod";
import {
  type Progress,
  type Unfinished,
  type ZipEntry,
  zipDirectory,
  zipEnd,
  zipHeader,
  zipPlaceAt,
} from "../../../internal.ts";
import {
  type ForeignKind,
  type ForeignTensor,
  foreignTensors,
  permuted,
} from "../dlrm-names/foreign-tensors.ts";
import { TensorToWrite, torchEntries, type ValueToWrite } from "../torch/pickle.ts";
import { notesEntry } from "../torch/read-torch-file.ts";
import type { ExportedModel } from "./exported-model.ts";
import { type FilePiece, markBytes, numbersPiece, rowsPiece } from "./file-pieces.ts";
import { optimizerState } from "./pytorch-state.ts";

/**
 * The resume mark: all bytes before `at` are written. It holds the checksums of finished entries
 * (`sums`) and of the unfinished one (`sum`).
 */
export const pytorchMark = z.object({
  at: z.int().nonnegative(),
  sums: z.array(z.int().nonnegative()),
  sum: z.int().nonnegative(),
});
type PyTorchMark = z.output<typeof pytorchMark>;

/** Alignment of an entry's contents, because PyTorch maps files into memory. */
const alignmentBytes = 64;

/**
 * Writes the file, from the last mark on. @throws InvalidOptionError where the other program has no
 * such model; CheckpointCorruptError
 */
export async function writePyTorch(
  { file, last, save }: Unfinished<PyTorchMark>,
  model: ExportedModel,
  progress: Progress,
  options: {
    readonly kind: ForeignKind;
    readonly withOptimizer: boolean;
    readonly everyBytes?: number | undefined;
  },
): Promise<void> {
  const { everyBytes = markBytes } = options;
  const notes = { [notesEntry]: JSON.stringify(model.notes) };
  const entries = torchEntries(savedAs(model, options), notes).map(({ name, contents }) => {
    const piece = contents instanceof Uint8Array ? numbersPiece(contents) : contents.numbers;
    return { name, piece };
  });
  for (const { piece } of entries) progress.expect(piece.bytes + piece.sourceBytes);
  const written: ZipEntry[] = [];
  let marked = last?.at ?? 0;
  for (const [i, { name, piece }] of entries.entries()) {
    const { bytes, sourceBytes } = piece;
    const place = zipPlaceAt(zipEnd(written), name, alignmentBytes);
    const finished = last?.sums[i];
    if (finished !== undefined) {
      progress.skip(bytes + sourceBytes);
      written.push({ ...place, bytes, crc: finished });
      continue;
    }
    let crc = i === last?.sums.length ? last.sum : 0;
    let at = Math.min(Math.max(marked, place.start), place.start + bytes);
    progress.skip(at - place.start);
    for await (const bytes of piece.read(progress, at - place.start)) {
      for (const counted of progress.count([bytes])) file.write(counted, at);
      if (bytes.length > 0) crc = crc32(bytes, crc); // Node's crc32 of no bytes is 0.
      at += bytes.length;
      if (at - marked < everyBytes) continue;
      await save({ at, sums: written.map((one) => one.crc), sum: crc });
      marked = at;
    }
    const entry = { ...place, bytes, crc };
    file.write(zipHeader(entry), entry.header);
    written.push(entry);
  }
  file.write(zipDirectory(written), zipEnd(written));
}

/**
 * The value that torch.load returns: the dict that facebookresearch/dlrm saves, or TorchRec's state
 * dict.
 */
function savedAs(
  model: ExportedModel,
  { kind, withOptimizer }: { readonly kind: ForeignKind; readonly withOptimizer: boolean },
): ValueToWrite<FilePiece> {
  const { job, manifest } = model.checkpoint;
  const tensors = foreignTensors(kind, job.model);
  const state = new Map(tensors.map((tensor) => [tensor.name, written(model, tensor)] as const));
  const optimizer = withOptimizer ? optimizerState(kind, model, tensors) : undefined;
  if (kind === "torchrec") return optimizer === undefined ? state : { model: state, optimizer };
  // Fields that `--load-model` of facebookresearch/dlrm reads.
  const position = { nepochs: 1, nbatches: manifest.cut, nbatches_test: 0 };
  const figures = { epoch: 0, iter: manifest.cut, train_loss: 0, total_loss: 0, test_acc: 0 };
  const saved = { ...position, state_dict: state, ...figures };
  return optimizer === undefined ? saved : { ...saved, opt_state_dict: optimizer };
}

function written(
  model: ExportedModel,
  { own, shape, columns }: ForeignTensor,
): TensorToWrite<FilePiece> {
  if ("table" in own) {
    const table = model.tables.find(({ stored }) => stored.table === own.table);
    if (table === undefined) throw new RangeError(`There is no table ${own.table}`);
    return new TensorToWrite(shape, rowsPiece(table));
  }
  const found = model.dense.find(({ name }) => name === own.parameter);
  if (found === undefined) throw new RangeError(`There is no parameter ${own.parameter}`);
  return new TensorToWrite(shape, numbersPiece(permuted(found.values, columns)));
}
