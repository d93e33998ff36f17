// Writes a model as a PyTorch state dict in float32, with the names and the order of
// facebookresearch/dlrm or TorchRec. Rows pass through in chunks. The checksum of a zip entry
// precedes its data, so it is written after the entry's last byte; a mark contains the checksums so
// far.

import { crc32 } from "node:zlib";
import { z } from "zod";
import type { Progress, Unfinished } from "../../../internal.ts";
import { counterpartOf, type ForeignKind, type ForeignTensor } from "../dlrm-names/counterpart.ts";
import {
  type EntryToWrite,
  layTorchFile,
  TensorToWrite,
  type ValueToWrite,
} from "../torch/lay-torch-file.ts";
import { notesEntry } from "../torch/read-torch-file.ts";
import type { ExportedModel } from "./exported-model.ts";
import { type FilePiece, markBytes } from "./file-pieces.ts";
import { optimizerState, type StatePiece, stateChunks } from "./pytorch-state.ts";
import { inTheirOrder } from "./their-order.ts";
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
  const layout = layTorchFile<TorchPiece>(savedAs(model, options), notes);
  progress.expect(layout.end);
  for (const { contents } of layout.entries) {
    const numbers = contents instanceof Uint8Array ? contents : contents.numbers;
    if ("state" in numbers) progress.expect(numbers.state.bytes);
    else if ("stored" in numbers) progress.expect(numbers.stored.bytes);
  }
  const sums = [...(last?.sums ?? [])];
  let marked = last?.at ?? 0;
  for (const [i, entry] of layout.entries.entries()) {
    const begun = Math.min(Math.max(marked - entry.start, 0), entry.bytes);
    if (i < sums.length) {
      progress.skip(entry.bytes);
      continue;
    }
    let sum = i === last?.sums.length ? last.sum : 0;
    for await (const { bytes, at } of piecesOf(model, entry, begun, progress)) {
      for (const own of progress.count([bytes])) file.write(own, at);
      sum = crc32(bytes, sum);
      const next = at + bytes.length;
      if (next - marked < everyBytes) continue;
      await save({ at: next, sums: [...sums], sum });
      marked = next;
    }
    const header = layout.header(i, sum);
    file.write(header.bytes, header.at);
    sums.push(sum);
  }
  file.write(layout.directory(sums), layout.end);
}

/** The bytes of an entry from its byte `begun` on, with their offsets in the file. */
async function* piecesOf(
  { checkpoint }: ExportedModel,
  { contents, start }: EntryToWrite<TorchPiece>,
  begun: number,
  progress: Progress,
): AsyncGenerator<{ readonly bytes: Uint8Array; readonly at: number }> {
  const piece = contents instanceof Uint8Array ? contents : contents.numbers;
  let at = start + begun;
  progress.skip(begun);
  if (piece instanceof Uint8Array) {
    yield { bytes: piece.subarray(begun), at };
    return;
  }
  if ("state" in piece) {
    const firstRow = begun / (4 * piece.columns);
    for await (const bytes of stateChunks(checkpoint, piece, progress, firstRow)) {
      yield { bytes, at };
      at += bytes.length;
    }
    return;
  }
  const firstRow = begun / (4 * piece.stored.spec.dim);
  for await (const { weights } of wholeRows(checkpoint, piece.stored, progress, firstRow)) {
    const bytes = new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength);
    yield { bytes, at };
    at += bytes.length;
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
  const tensors = counterpartOf(kind, job.model);
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
  return new TensorToWrite<TorchPiece>(shape, inTheirOrder(found.values, columns));
}
