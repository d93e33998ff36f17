// Rows as safetensors:
//
//   ids I64 (n) | vectors F32 (n, D) | state F32 (n, W), if the file has state

import { type Disk, type DiskFile, onDisk } from "../../../internal.ts";
import { bytesOf } from "../exports/file-pieces.ts";
import {
  elementBytes,
  layOutTensors,
  readTensorHeader,
  type TensorRecord,
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
  const { tensors, first } = readTensorHeader(file, path);
  const ids = tensorOf(tensors, "ids", ["I64", "I32"], 1, path);
  const vectors = tensorOf(tensors, "vectors", ["F32"], 2, path);
  const state = tensors.state && tensorOf(tensors, "state", ["F32"], 2, path);
  const [rows = 0] = ids.shape;
  for (const [name, { shape }] of Object.entries({ vectors, ...(state && { state }) })) {
    if (shape[0] === rows) continue;
    throw unusable(path, `Expected \`${name}\` of ${path} to have ${rows} rows, got ${shape[0]}`);
  }
  const [dim = 0, width = 0] = [vectors.shape[1], state?.shape[1]];
  const read = (tensor: TensorRecord, at: number, rowBytes: number, count: number) => {
    const bytes = new Uint8Array(rowBytes * count);
    const offset = first + tensor.data_offsets[0] + rowBytes * at;
    onDisk("read", path, () => file.read(bytes, offset));
    return bytes.buffer;
  };
  return {
    shape: { dim, width },
    async *chunks() {
      for (let at = 0; at < rows; at += fileRowsMax) {
        const count = Math.min(fileRowsMax, rows - at);
        yield {
          ids: idsOf(read(ids, at, ids.dtype === "I64" ? 8 : 4, count), ids.dtype),
          vectors: new Float32Array(read(vectors, at, 4 * dim, count)),
          state: state && new Float32Array(read(state, at, 4 * width, count)),
        } satisfies FileRows;
      }
    },
    placeOf: (at) => `row ${at} of ${path}`,
    close: () => file.close(),
  };
}

/** @throws InputUnusableError where the tensor is missing, or has another type or shape */
function tensorOf(
  tensors: Readonly<Record<string, TensorRecord>>,
  name: string,
  dtypes: readonly string[],
  rank: number,
  path: string,
): TensorRecord {
  const found = tensors[name];
  const form = `${dtypes.join(" or ")} (${rank === 1 ? "rows" : "rows, columns"})`;
  const wanted = `Expected a tensor \`${name}\` of ${form} in ${path}`;
  if (found === undefined) {
    const names = Object.keys(tensors).map((one) => `\`${one}\``);
    throw unusable(path, `${wanted}, got ${names.join(", ") || "none"}`);
  }
  const {
    dtype,
    shape,
    data_offsets: [begin, end],
  } = found;
  if (!dtypes.includes(dtype) || shape.length !== rank) {
    throw unusable(path, `${wanted}, got ${dtype} (${shape.join(", ")})`);
  }
  const bytes = shape.reduce((product, length) => product * length, elementBytes(dtype));
  if (end - begin === bytes) return found;
  throw unusable(
    path,
    `Expected \`${name}\` of ${path} to have ${bytes} bytes, got ${end - begin}`,
  );
}

function idsOf(buffer: ArrayBuffer, dtype: string): BigInt64Array {
  if (dtype === "I64") return new BigInt64Array(buffer);
  return BigInt64Array.from(new Int32Array(buffer), BigInt);
}
