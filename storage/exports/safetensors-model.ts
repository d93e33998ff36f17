// A whole model as safetensors, all numbers in float32:
//
//   bottom.0.weight …                    dense parameters, and running statistics
//   embedding_bags.NAME.weight           (rows, D) of each table, trained or not
//   embedding_bags.NAME.ids, …id_rows    (n) I64: the dynamic ids of a table, and their rows
//
// A chunk of rows is in memory at a time. Ids of dynamic tables, which a checkpoint has in memory
// too, are the exception.

import type { DiskFile } from "../../src/ports/disk.ts";
import type { Progress } from "../disk/progress.ts";
import { layTensorsOut, type TensorSpec } from "../safetensors/header.ts";
import { type ExportedModel, rowsNameOf } from "./exported-model.ts";
import { wholeRows } from "./whole-rows.ts";

/** A tensor, and what yields its bytes in order. */
interface Written extends TensorSpec {
  pieces(progress: Progress): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** What other programs tell the kind of the file by. */
const format = { format: "pt" };

/** Writes a model's tensors, one after the other. @throws CheckpointCorruptError */
export async function writeSafetensors(
  file: DiskFile,
  model: ExportedModel,
  progress: Progress,
): Promise<void> {
  const tensors = tensorsOf(model);
  const { header, starts, bytes } = layTensorsOut(tensors, { ...format, ...model.notes });
  progress.expect(bytes);
  file.write(header, 0);
  for (const [i, tensor] of tensors.entries()) {
    let at = starts[i] ?? 0;
    for await (const piece of tensor.pieces(progress)) {
      for (const own of progress.count([piece])) file.write(own, at);
      at += piece.length;
    }
  }
}

/** All tensors, those of 8 bytes an element first. */
function tensorsOf(model: ExportedModel): Written[] {
  const ids = model.tables.flatMap(({ stored: { spec }, ids: own }): Written[] => {
    if (own === undefined) return [];
    const all = [...own.all()];
    const tensor = (name: string, values: bigint[]): Written => ({
      name: `embedding_bags.${spec.name}.${name}`,
      dtype: "I64",
      shape: [own.count],
      pieces: () => [bytesOf(BigInt64Array.from(values))],
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
    return { name, dtype: "F32", shape, pieces: () => [bytesOf(values)] };
  });
  const rows = model.tables.map((table): Written => {
    const { stored } = table;
    const { rows, dim } = stored.spec;
    return {
      name: rowsNameOf(table),
      dtype: "F32",
      shape: [rows, dim],
      async *pieces(progress) {
        progress.expect(stored.bytes);
        for await (const { weights } of wholeRows(model.checkpoint, stored, progress)) {
          yield bytesOf(weights);
        }
      },
    };
  });
  return [...ids, ...dense, ...rows];
}

function bytesOf(array: BigInt64Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
