// Safetensors: 8 bytes with the length of the header, the header (JSON), then the tensors, each in
// one piece. All little-endian, as is every machine that we run on.
//
//   ids I64 (n) | vectors F32 (n, D) | state F32 (n, W), where there is state

import { z } from "zod";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { onDisk } from "../disk/durable-files.ts";
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

/** The limit of the format's own readers. */
const headerBytesMax = 100_000_000;
/** The header is padded with spaces, so that the tensors are aligned for typed arrays. */
const alignmentBytes = 8;

const tensorSchema = z.object({
  dtype: z.string(),
  shape: z.array(z.int().nonnegative()),
  data_offsets: z.tuple([z.int().nonnegative(), z.int().nonnegative()]),
});

type TensorRecord = z.output<typeof tensorSchema>;

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

function layoutOf({ dim, width }: FileShape, notes: FileNotes, rows: number) {
  const [vectors, state] = [8 * rows, 8 * rows + 4 * dim * rows];
  const end = state + 4 * width * rows;
  const ofState = { state: { dtype: "F32", shape: [rows, width], data_offsets: [state, end] } };
  const text = JSON.stringify({
    __metadata__: notes,
    ids: { dtype: "I64", shape: [rows], data_offsets: [0, vectors] },
    vectors: { dtype: "F32", shape: [rows, dim], data_offsets: [vectors, state] },
    ...(width === 0 ? {} : ofState),
  });
  const json = new TextEncoder().encode(text);
  const length = alignmentBytes * Math.ceil(json.length / alignmentBytes);
  const header = new Uint8Array(8 + length).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(length), true);
  header.set(json, 8);
  const first = header.length;
  return { header, starts: { ids: first, vectors: first + vectors, state: first + state } };
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
  const { tensors, first } = readHeader(file, path);
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

function readHeader(
  file: DiskFile,
  path: string,
): { tensors: Readonly<Record<string, TensorRecord>>; first: number } {
  const size = file.size();
  const head = new Uint8Array(8);
  file.read(head, 0);
  const length = Number(new DataView(head.buffer).getBigUint64(0, true));
  if (size < 8 || length > Math.min(headerBytesMax, size - 8)) {
    throw unusable(path, `Expected a safetensors file, but ${path} is none, or is cut short`);
  }
  const json = new Uint8Array(length);
  file.read(json, 8);
  let tensors: Record<string, TensorRecord>;
  try {
    const { __metadata__: _notes, ...rest } = JSON.parse(new TextDecoder().decode(json));
    tensors = z.record(z.string(), tensorSchema).parse(rest);
  } catch (cause) {
    throw unusable(path, `Expected ${path} to begin with a header of safetensors in JSON`, cause);
  }
  const first = 8 + length;
  const end = Object.values(tensors).reduce((most, one) => Math.max(most, one.data_offsets[1]), 0);
  if (size === first + end) return { tensors, first };
  throw unusable(path, `Expected ${path} to have ${first + end} bytes, got ${size}: it is damaged`);
}

const dtypeBytes: Readonly<Record<string, number>> = { I64: 8, I32: 4, F32: 4 };

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
  const bytes = shape.reduce((product, length) => product * length, dtypeBytes[dtype] ?? 0);
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

function bytesOf(array: BigInt64Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
