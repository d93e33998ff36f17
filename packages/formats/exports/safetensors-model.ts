// Writes a model as safetensors, with weights in float32:
//
//   bottom.0.weight …                    dense parameters and running statistics
//   embedding_bags.NAME.weight           (rows, D) of each table, trained or not
//   embedding_bags.NAME.ids, …id_rows    (n) I64: the dynamic ids of a table, and their rows
//
// Memory holds one chunk of rows at a time, and all ids of dynamic tables, which reading a
// checkpoint needs in memory anyway.

import type { Progress, Unfinished } from "../../../internal.ts";
import { layOutTensors, type TensorSpec } from "../safetensors/safetensors-file.ts";
import { type ExportedModel, rowsNameOf } from "./exported-model.ts";
import {
  type FilePiece,
  numbersPiece,
  type PieceMark,
  rowsPiece,
  writePieces,
} from "./file-pieces.ts";

/** A tensor, and the source of its bytes. */
interface Written extends TensorSpec {
  readonly piece: FilePiece;
}

/** Metadata by which other programs recognise the kind of the file. */
const format = { format: "pt" };

/**
 * Writes a model's tensors, one after the other, with a mark every `everyBytes`.
 * @throws CheckpointCorruptError
 */
export async function writeSafetensors(
  unfinished: Unfinished<PieceMark>,
  model: ExportedModel,
  progress: Progress,
  everyBytes?: number,
): Promise<void> {
  const tensors = tensorsOf(model);
  const { header, starts, bytes } = layOutTensors(tensors, { ...format, ...model.notes });
  progress.expect(bytes);
  for (const { stored } of model.tables) progress.expect(stored.bytes);
  const placed = tensors.map(({ piece }, i) => ({ piece, first: starts[i] ?? 0 }));
  const all = [{ piece: numbersPiece(header), first: 0 }, ...placed];
  await writePieces(unfinished, all, progress, everyBytes);
}

/** All tensors; those with 8-byte elements come first, so that every tensor is aligned. */
function tensorsOf(model: ExportedModel): Written[] {
  const ids = model.tables.flatMap(({ stored: { spec }, ids: own }): Written[] => {
    if (own === undefined) return [];
    const all = [...own.all()];
    const tensor = (name: string, values: bigint[]): Written => ({
      name: `embedding_bags.${spec.name}.${name}`,
      dtype: "I64",
      shape: [own.count],
      piece: numbersPiece(BigInt64Array.from(values)),
    });
    return [
      tensor(
        "ids",
        all.map(({ id }) => id),
      ),
      tensor(
        "id_rows",
        all.map(({ row }) => BigInt(row)),
      ),
    ];
  });
  const dense = model.dense.map(({ name, shape, values }): Written => {
    return { name, dtype: "F32", shape, piece: numbersPiece(values) };
  });
  const rows = model.tables.map((table): Written => {
    const { rows, dim } = table.stored.spec;
    return { name: rowsNameOf(table), dtype: "F32", shape: [rows, dim], piece: rowsPiece(table) };
  });
  return [...ids, ...dense, ...rows];
}
