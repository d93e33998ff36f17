// Small safetensors files of float32 tensors, read whole into memory: learned cost networks and
// placement policies.

import {
  type Disk,
  type DiskFile,
  InputUnusableError,
  realDisk,
  writeWhole,
} from "../../../internal.ts";
import { layOutTensors, readTensorHeader } from "../../formats/index.ts";

/** Metadata of a learned file: how it was trained, for people and programs that find the file. */
export type Provenance = Readonly<Record<string, string>>;

export interface FloatTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** Writes the file. Equal tensors with equal notes give equal bytes. */
export async function writeFloats(
  path: string,
  tensors: readonly FloatTensor[],
  notes: Provenance,
  disk: Disk = realDisk,
): Promise<void> {
  const { header, starts } = layOutTensors(
    tensors.map(({ name, shape }) => ({ name, shape, dtype: "F32" })),
    notes,
  );
  await writeWhole(disk, path, async (file) => {
    file.write(header, 0);
    for (const [i, { values }] of tensors.entries()) {
      file.write(
        new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
        starts[i] ?? 0,
      );
    }
  });
}

/** A file's float32 tensors by name, and its metadata. Tensors of other types are left out. */
export interface ReadFloats {
  readonly notes: Provenance;
  readonly tensors: ReadonlyMap<string, FloatTensor>;
}

/** @throws InputUnusableError where the file cannot be read */
export function readFloats(path: string, disk: Disk = realDisk): ReadFloats {
  const file = opened(path, disk);
  try {
    const { notes, tensors, first } = readTensorHeader(file, path);
    const floats = Object.entries(tensors).filter(([, { dtype }]) => dtype === "F32");
    const read = floats.map(
      ([
        name,
        {
          shape,
          data_offsets: [start, end],
        },
      ]) => {
        const bytes = new Uint8Array(end - start);
        file.read(bytes, first + start);
        return [name, { name, shape, values: new Float32Array(bytes.buffer) }] as const;
      },
    );
    return { notes, tensors: new Map(read) };
  } finally {
    file.close();
  }
}

/** The error of a file that is not one of `content`, with the command that makes one. */
export function unusableFile(
  path: string,
  why: string,
  { content, command }: { readonly content: string; readonly command: string },
): InputUnusableError {
  const message = `Expected ${path} to be a file of ${content}, but ${why}; \`${command}\` makes one`;
  return new InputUnusableError(path, message);
}

function opened(path: string, disk: Disk): DiskFile {
  try {
    return disk.open(path, "read");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${reason}`, { cause });
  }
}
