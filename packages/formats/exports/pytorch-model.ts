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
import {
  type EntryToWrite,
  TensorToWrite,
  torchEntries,
  type ValueToWrite,
} from "../torch/pickle.ts";
import { notesEntry } from "../torch/read-torch-file.ts";
import type { ExportedModel } from "./exported-model.ts";
import { bytesOf, type FilePiece, markBytes } from "./file-pieces.ts";
import { optimizerState, type StatePiece, stateChunks } from "./pytorch-state.ts";
import { wholeRows } from "./whole-rows.ts";

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

/** Contents of an entry: bytes, rows of a table, or the state of a table's rows. */
type TorchPiece = FilePiece | StatePiece;

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
  const entries = torchEntries<TorchPiece>(savedAs(model, options), notes);
  for (const { bytes, contents } of entries) {
    progress.expect(bytes);
    const numbers = contents instanceof Uint8Array ? contents : contents.numbers;
    if ("state" in numbers) progress.expect(numbers.state.bytes);
    else if ("stored" in numbers) progress.expect(numbers.stored.bytes);
  }
  const written: ZipEntry[] = [];
  let marked = last?.at ?? 0;
  for (const [i, { name, bytes, contents }] of entries.entries()) {
    const place = zipPlaceAt(zipEnd(written), name, alignmentBytes);
    const finished = last?.sums[i];
    if (finished !== undefined) {
      progress.skip(bytes);
      written.push({ ...place, bytes, crc: finished });
      continue;
    }
    let crc = i === last?.sums.length ? last.sum : 0;
    let at = Math.min(Math.max(marked, place.start), place.start + bytes);
    for await (const piece of piecesOf(model, contents, at - place.start, progress)) {
      for (const own of progress.count([piece])) file.write(own, at);
      crc = crc32(piece, crc);
      at += piece.length;
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

/** The bytes of an entry from its byte `begun` on, in pieces. */
async function* piecesOf(
  { checkpoint }: ExportedModel,
  contents: EntryToWrite<TorchPiece>["contents"],
  begun: number,
  progress: Progress,
): AsyncGenerator<Uint8Array> {
  const piece = contents instanceof Uint8Array ? contents : contents.numbers;
  progress.skip(begun);
  if (piece instanceof Uint8Array) {
    yield piece.subarray(begun);
  } else if ("state" in piece) {
    yield* stateChunks(checkpoint, piece, progress, begun / (4 * piece.columns));
  } else {
    const firstRow = begun / (4 * piece.stored.spec.dim);
    for await (const { weights } of wholeRows(checkpoint, piece.stored, progress, firstRow)) {
      yield bytesOf(weights);
    }
  }
}

/**
 * The value that torch.load returns: the dict that facebookresearch/dlrm saves, or TorchRec's state
 * dict.
 */
function savedAs(
  model: ExportedModel,
  { kind, withOptimizer }: { readonly kind: ForeignKind; readonly withOptimizer: boolean },
): ValueToWrite<TorchPiece> {
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
): TensorToWrite<TorchPiece> {
  if ("table" in own) {
    const table = model.tables.find(({ stored }) => stored.table === own.table);
    if (table === undefined) throw new RangeError(`There is no table ${own.table}`);
    return new TensorToWrite<TorchPiece>(shape, table);
  }
  const found = model.dense.find(({ name }) => name === own.parameter);
  if (found === undefined) throw new RangeError(`There is no parameter ${own.parameter}`);
  return new TensorToWrite<TorchPiece>(shape, bytesOf(permuted(found.values, columns)));
}
