// Rows as safetensors:
//
//   ids I64 (n) | vectors F32 (n, D) | state F32 (n, W), if the file has state

import type { Disk, DiskFile } from "../../../internal.ts";
import { bytesOf } from "../exports/file-pieces.ts";
import { type SourceTensor, someOf } from "../imports/tensor-source.ts";
import {
  layOutTensors,
  openSafetensors,
  type TensorSpec,
} from "../safetensors/safetensors-file.ts";
import {
  type FileNotes,
  type FileRows,
  type FileShape,
  fileRowsMax,
  openFile,
  type RowFile,
  type RowFileWriter,
  type RowFormat,
  unusable,
} from "./row-file.ts";

/** Rows as safetensors, the format of `.safetensors`. */
export const safetensors: RowFormat = { isCounted: true, open: openWriter, read: openReader };

function openWriter(
  file: DiskFile,
  shape: FileShape,
  notes: FileNotes,
  rows: number,
): RowFileWriter {
  const { header, starts } = layoutOf(shape, notes, rows);
  file.write(header, 0);
  let done = 0;
  return {
    write({ ids, vectors, state }) {
      file.write(bytesOf(ids), starts.ids + 8 * done);
      file.write(bytesOf(vectors), starts.vectors + 4 * shape.dim * done);
      if (state !== undefined) file.write(bytesOf(state), starts.state + 4 * shape.width * done);
      done += ids.length;
    },
    finish() {},
  };
}

/** The tensors of a file of rows. */
function layoutOf({ dim, width }: FileShape, notes: FileNotes, rows: number) {
  const tensors: TensorSpec[] = [
    { name: "ids", dtype: "I64", shape: [rows] },
    { name: "vectors", dtype: "F32", shape: [rows, dim] },
    ...(width === 0 ? [] : [{ name: "state", dtype: "F32", shape: [rows, width] } as const]),
  ];
  const { header, starts } = layOutTensors(tensors, notes);
  const [ids = 0, vectors = 0, state = 0] = starts;
  return { header, starts: { ids, vectors, state } };
}

async function openReader(path: string, disk: Disk): Promise<RowFile> {
  const file = openFile(path, disk);
  try {
    return readerOf(file, path);
  } catch (error) {
    file.close();
    throw error;
  }
}

function readerOf(file: DiskFile, path: string): RowFile {
  const { tensors, close } = openSafetensors(file, path);
  const ids = tensorOf(tensors, "ids", ["int64", "int32"], 1, path);
  const vectors = tensorOf(tensors, "vectors", ["float32"], 2, path);
  const state = tensors.has("state") ? tensorOf(tensors, "state", ["float32"], 2, path) : undefined;
  const [rows = 0] = ids.shape;
  for (const [name, { shape }] of Object.entries({ vectors, ...(state && { state }) })) {
    if (shape[0] === rows) continue;
    throw unusable(path, `Expected \`${name}\` of ${path} to have ${rows} rows, got ${shape[0]}`);
  }
  return {
    shape: { dim: vectors.shape[1] ?? 0, width: state?.shape[1] ?? 0 },
    async *chunks() {
      for (let at = 0; at < rows; at += fileRowsMax) {
        const count = Math.min(fileRowsMax, rows - at);
        const { buffer } = ids.read(at, count);
        yield {
          ids:
            ids.type === "int64"
              ? new BigInt64Array(buffer)
              : BigInt64Array.from(new Int32Array(buffer), BigInt),
          vectors: new Float32Array(vectors.read(at, count).buffer),
          state: state && new Float32Array(state.read(at, count).buffer),
        } satisfies FileRows;
      }
    },
    placeOf: (at) => `row ${at} of ${path}`,
    close,
  };
}

/** @throws InputUnusableError where the tensor is missing, or has another type or shape */
function tensorOf(
  tensors: ReadonlyMap<string, SourceTensor>,
  name: string,
  types: readonly string[],
  rank: number,
  path: string,
): SourceTensor {
  const found = tensors.get(name);
  const form = `${types.join(" or ")} (${rank === 1 ? "rows" : "rows, columns"})`;
  const wanted = `Expected a tensor \`${name}\` of ${form} in ${path}`;
  if (found === undefined)
    throw unusable(path, `${wanted}, got ${someOf([...tensors.keys()]) || "none"}`);
  const { type, shape } = found;
  if (types.includes(type) && shape.length === rank) return found;
  throw unusable(path, `${wanted}, got ${type} (${shape.join(", ")})`);
}
