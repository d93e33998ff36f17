// Writes a model as ONNX. Messages of protobuf say their length first, so all lengths are known
// before the first row of a table is read: rows pass through in chunks, into the model itself or,
// where it would be too large for protobuf, into a file beside it.

import { basename } from "node:path";
import type { Disk, DiskFile } from "../../../src/ports/disk.ts";
import type { Progress } from "../../disk/progress.ts";
import { writeWhole } from "../../disk/whole-file.ts";
import { type ExportedModel, type ExportedTable, rowsNameOf } from "../exported-model.ts";
import { wholeRows } from "../whole-rows.ts";
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

/** The most bytes of a message of protobuf, and room for what is no tensor. */
export const inlineBytesMax = 2 ** 31 - 2 ** 24;
/** Tensors in a file of their own begin at pages, of the largest that systems map files by. */
const pageBytes = 65_536;

/** Something of the file: bytes, or the rows of a table. */
type Piece = Uint8Array | ExportedTable;

/** Where the rows of a table lie in the file beside the model. */
interface Beside {
  readonly table: ExportedTable;
  readonly offset: number;
}

/** The files that were written, and their bytes. */
export interface WrittenOnnx {
  readonly bytes: number;
  /** The file of tables beside the model, where they do not fit into it. */
  readonly dataFile: string | undefined;
}

/**
 * Puts a model at `path`; its tables into `path.data` where they, with all dense parameters, have
 * more than `inlineMax` bytes.
 * @throws InvalidOptionError (translateModel), InputUnusableError, CheckpointCorruptError
 */
export async function writeOnnx(
  disk: Disk,
  path: string,
  model: ExportedModel,
  progress: Progress,
  inlineMax = inlineBytesMax,
): Promise<WrittenOnnx> {
  const dataFile = `${path}.data`;
  const ofTables = model.tables.reduce((sum, table) => sum + bytesOf(table), 0);
  const isBeside = ofTables + 4 * model.graph.layout.length > inlineMax;
  const { pieces, beside } = layOut(model, isBeside ? basename(dataFile) : undefined);
  for (const { stored } of model.tables) progress.expect(stored.bytes);
  progress.expect(ofTables);
  let dataBytes = 0;
  const bytes = await writeWhole(disk, path, async (file) => {
    let at = 0;
    for (const piece of pieces) {
      if (piece instanceof Uint8Array) file.write(piece, at);
      else await writeTable(file, at, model, piece, progress);
      at += lengthOf(piece);
    }
    if (!isBeside) return;
    // Both get their names together: the model as soon as its tables have theirs.
    dataBytes = await writeWhole(disk, dataFile, async (data) => {
      for (const { table, offset } of beside) {
        await writeTable(data, offset, model, table, progress);
      }
    });
  });
  return { bytes: bytes + dataBytes, dataFile: isBeside ? dataFile : undefined };
}

/** The pieces of the model file in order, and the tables that lie beside it, in the file `data`. */
function layOut(model: ExportedModel, data: string | undefined) {
  const { operators, outputs } = translateModel(model);
  const { nodes, inputs, constants } = operators;
  const own: Piece[] = [
    graphBytes({ name: model.checkpoint.job.model.kind, nodes, inputs, outputs }),
  ];
  const add = (head: Uint8Array, numbers: Piece | undefined) => {
    const raw = numbers === undefined ? [] : [rawField(lengthOf(numbers)), numbers];
    const tensor = [head, ...raw];
    own.push(initializerField(total(tensor)), ...tensor);
  };
  const small = (name: string, type: TensorType, shape: readonly number[], bytes: Uint8Array) =>
    add(tensorBytes(name, type, shape), bytes);
  for (const { name, type, shape, bytes } of constants) small(name, type, shape, bytes);
  for (const { name, shape, values } of model.dense) {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    small(name, "float32", shape, bytes);
  }
  const beside: Beside[] = [];
  let end = 0;
  for (const table of model.tables) {
    const { rows, dim } = table.stored.spec;
    const bytes = bytesOf(table);
    const place = data === undefined ? undefined : { file: data, offset: end, bytes };
    add(
      tensorBytes(rowsNameOf(table), "float32", [rows, dim], place),
      place === undefined ? table : undefined,
    );
    if (place === undefined) continue;
    beside.push({ table, offset: end });
    end = pageBytes * Math.ceil((end + bytes) / pageBytes);
  }
  const pieces: Piece[] = [modelBytes(model.notes), graphField(total(own)), ...own];
  return { pieces, beside };
}

function total(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, piece) => sum + lengthOf(piece), 0);
}

function lengthOf(piece: Piece): number {
  return piece instanceof Uint8Array ? piece.length : bytesOf(piece);
}

function bytesOf({ stored: { spec } }: ExportedTable): number {
  return 4 * spec.rows * spec.dim;
}

/** Writes all rows of a table from `offset` on. */
async function writeTable(
  file: DiskFile,
  offset: number,
  { checkpoint }: ExportedModel,
  { stored }: ExportedTable,
  progress: Progress,
): Promise<void> {
  let at = offset;
  for await (const { weights } of wholeRows(checkpoint, stored, progress)) {
    const bytes = new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength);
    for (const piece of progress.count([bytes])) file.write(piece, at);
    at += bytes.length;
  }
}
