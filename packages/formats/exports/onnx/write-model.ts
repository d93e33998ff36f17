// Writes a model as ONNX. Protobuf messages begin with their length, so all lengths are computed
// before the first row is read. Rows then pass through in chunks, into the model file or, if that
// would exceed protobuf's limit, into a file beside it.

import { basename } from "node:path";
import { type Disk, type Making, type Progress, writeResumable } from "../../../../internal.ts";
import { type ExportedModel, rowsNameOf } from "../exported-model.ts";
import {
  type FilePiece,
  numbersPiece,
  type PieceMark,
  type PlacedPiece,
  rowsPiece,
  writePieces,
} from "../file-pieces.ts";
import { type InputsFile, type WrittenTable, writeInputs } from "./inputs-file.ts";
import {
  graphBytes,
  graphField,
  initializerField,
  modelBytes,
  rawField,
  type TensorType,
  tensorBytes,
} from "./messages.ts";
import { translateModel } from "./model-graph.ts";
import { type FeatureInput, featureInputs, type InputIds } from "./raw-ids.ts";
import { idsPlaceOf, sortedIds } from "./rows-of-ids.ts";

/** Protobuf's limit on a message's bytes, less some room for everything but tensors. */
export const inlineBytesMax = 2 ** 31 - 2 ** 24;
/** Alignment of tensors in the data file: the largest page size by which systems map files. */
const pageBytes = 65_536;

/** The files that were written, and their bytes. */
export interface WrittenOnnx {
  readonly bytes: number;
  /** The file beside the model with the tables, if they do not fit into the model. */
  readonly dataFile: string | undefined;
  /** The byte from which an interrupted command was resumed. */
  readonly resumedAt: number;
  /** The description of the model's inputs. */
  readonly inputs: InputsFile;
}

/** Options of the format. */
export interface OnnxForm {
  readonly ids?: InputIds | undefined;
  readonly inlineMax?: number | undefined;
  readonly everyBytes?: number | undefined;
}

/**
 * Writes a model to `path` and the description of its inputs to `path.json`. Tables go to
 * `path.data` if they and the dense parameters have more than `inlineMax` bytes.
 * @throws InvalidOptionError (translateModel, featureInputs), InputUnusableError,
 * CheckpointCorruptError
 */
export async function writeOnnx(
  disk: Disk,
  path: string,
  model: ExportedModel,
  progress: Progress,
  making: Making<PieceMark>,
  { ids, inlineMax = inlineBytesMax, everyBytes }: OnnxForm = {},
): Promise<WrittenOnnx> {
  const inputs = featureInputs(model.checkpoint.job, ids);
  const dataFile = `${path}.data`;
  const ofTables = model.tables.reduce((sum, table) => sum + rowsPiece(table).bytes, 0);
  const ofIds = model.tables.reduce((sum, table) => sum + 16 * (idsPlaceOf(table)?.count ?? 0), 0);
  const isBeside = ofTables + ofIds + 4 * model.graph.layout.length > inlineMax;
  const { pieces, beside } = layOut(model, inputs, isBeside ? basename(dataFile) : undefined);
  for (const { stored } of model.tables) progress.expect(stored.bytes);
  progress.expect(ofTables + ofIds);
  const write = (file: string, placed: readonly PlacedPiece[]) =>
    writeResumable(disk, file, making, (unfinished) =>
      writePieces(unfinished, placed, progress, everyBytes),
    );
  const inputsOf = (file: string, placed: readonly PlacedPiece[]) =>
    writeInputs(disk, path, model, inputs, tablesIn(file, placed));
  if (!isBeside) {
    const placed = placedOf(pieces);
    const made = await write(path, placed);
    return { ...made, dataFile: undefined, inputs: await inputsOf(path, placed) };
  }
  // Both files are renamed together: the model right after the file with its tables.
  let data = { bytes: 0, resumedAt: 0 };
  const { bytes } = await writeResumable(disk, path, making, async ({ file }) => {
    const unfinished = { file, last: undefined, save: async () => {} };
    await writePieces(unfinished, placedOf(pieces), progress);
    data = await write(dataFile, beside);
  });
  const file = await inputsOf(dataFile, beside);
  return { bytes: bytes + data.bytes, resumedAt: data.resumedAt, dataFile, inputs: file };
}

function tablesIn(file: string, placed: readonly PlacedPiece[]): WrittenTable[] {
  return placed.flatMap(({ piece, first }) => {
    return piece.table === undefined ? [] : [{ table: piece.table, file, first }];
  });
}

/** The offsets of consecutive pieces. */
function placedOf(pieces: readonly FilePiece[]): PlacedPiece[] {
  let first = 0;
  return pieces.map((piece) => {
    const placed = { piece, first };
    first += piece.bytes;
    return placed;
  });
}

/** The pieces of the model file in order, and the pieces of the file `data` beside it. */
function layOut(model: ExportedModel, of: readonly FeatureInput[], data: string | undefined) {
  const { operators, outputs } = translateModel(model, of);
  const { nodes, inputs, constants } = operators;
  const graph = { name: model.checkpoint.job.model.kind, nodes, inputs, outputs };
  const pieces = [numbersPiece(graphBytes(graph))];
  const add = (head: Uint8Array, numbers: FilePiece | undefined) => {
    const raw = numbers === undefined ? [] : [numbersPiece(rawField(numbers.bytes)), numbers];
    const tensor = [numbersPiece(head), ...raw];
    pieces.push(numbersPiece(initializerField(total(tensor))), ...tensor);
  };
  for (const { name, type, shape, bytes } of constants) {
    add(tensorBytes(name, type, shape), numbersPiece(bytes));
  }
  for (const { name, shape, values } of model.dense) {
    add(tensorBytes(name, "float32", shape), numbersPiece(values));
  }
  const beside: PlacedPiece[] = [];
  let end = 0;
  const large = (name: string, type: TensorType, shape: readonly number[], piece: FilePiece) => {
    if (data === undefined) {
      add(tensorBytes(name, type, shape), piece);
      return;
    }
    const { bytes } = piece;
    add(tensorBytes(name, type, shape, { file: data, offset: end, bytes }), undefined);
    beside.push({ piece, first: end });
    end = pageBytes * Math.ceil((end + bytes) / pageBytes);
  };
  for (const table of model.tables) {
    const { rows, dim } = table.stored.spec;
    const place = idsPlaceOf(table);
    if (table.ids !== undefined && place !== undefined) {
      const sorted = sortedIds(table.ids);
      large(place.ids, "int64", [place.count], numbersPiece(sorted.ids));
      large(place.rows, "int64", [place.count], numbersPiece(sorted.rows));
    }
    large(rowsNameOf(table), "float32", [rows, dim], rowsPiece(table));
  }
  const head = [modelBytes(model.notes), graphField(total(pieces))].map(numbersPiece);
  return { pieces: [...head, ...pieces], beside };
}

function total(pieces: readonly FilePiece[]): number {
  return pieces.reduce((sum, piece) => sum + piece.bytes, 0);
}
