// The parts of a checkpoint: what a device writes at a cut, and reads after a failure. A part
// belongs to the job (the dense network, a table), never to a device, so any number of devices can
// load it.
//
//   dense:  "OSRD" | version u32 | n u32 | slots u32 | w f32*n | slot f32*n …      (device 0)
//   table-00003:  rows-part.ts                                (its device; replicas: device 0)

import { createHash } from "node:crypto";
import { tableDigest } from "../embedding/digest.ts";
import { decodeRows, encodeRows } from "../embedding/rows-part.ts";
import type { Slab } from "../embedding/slab.ts";
import { CheckpointCorruptError } from "../errors.ts";
import { stateWidth } from "../kernels/kernels.ts";
import type { DeviceState } from "./device-state.ts";
import { tableOf } from "./topology.ts";

/** A part as it is written: its bytes in chunks, and the digest of what they mean. */
export interface Part {
  readonly name: string;
  /** Hex sha256 of the logical content, independent of placement and of chunking. */
  digest(): string;
  bytes(): Iterable<Uint8Array>;
}

export const densePart = "dense";

/** Name of the part with the rows of a table. */
export function tablePart(table: number): string {
  return `table-${String(table).padStart(5, "0")}`;
}

/** Index of the table whose part this is; undefined for the dense part. */
export function tableOfPart(name: string): number | undefined {
  const match = /^table-(\d{5})$/.exec(name);
  return match === null ? undefined : Number(match[1]);
}

/** All parts of a job, in logical order. */
export function partNames(tables: number): string[] {
  return [densePart, ...Array.from({ length: tables }, (_, table) => tablePart(table))];
}

/** The parts that this device answers for. */
export function partsOf(device: DeviceState): Part[] {
  const parts = rowsParts(device, device.slab);
  if (device.rank !== 0) return parts;
  return [denseOf(device), ...parts, ...rowsParts(device, device.replicas)];
}

/** Names of the parts that this device has to read: its own, and what every device holds. */
export function partsNeeded(device: DeviceState): string[] {
  const tables = [...device.slab.tables, ...device.replicas.tables];
  return [densePart, ...tables.map(tablePart)];
}

/** Puts the bytes of a part back. @throws CheckpointCorruptError */
export function restorePart(device: DeviceState, name: string, bytes: Uint8Array): void {
  const table = tableOfPart(name);
  if (table === undefined) {
    restoreDense(device, bytes, name);
    return;
  }
  for (const slab of [device.slab, device.replicas]) {
    const at = slab.tables.indexOf(table);
    if (at < 0) continue;
    const { dim } = tableOf(device.topology.input.model.tables, table);
    const width = stateWidth(device.recipe.optimizer.sparse.kind, dim);
    for (const records of decodeRows(bytes, { dim, width, path: name })) slab.restore(at, records);
  }
}

function rowsParts(device: DeviceState, slab: Slab): Part[] {
  return slab.tables.map((table, at) => {
    const spec = tableOf(device.topology.input.model.tables, table);
    const width = stateWidth(device.recipe.optimizer.sparse.kind, spec.dim);
    return {
      name: tablePart(table),
      digest: () => tableDigest(spec, width, slab.records(at)),
      bytes: () => encodeRows(spec.dim, width, slab.records(at), spec.precision),
    };
  });
}

const magic = 0x4452_534f;
const version = 1;
const headerBytes = 16;

function denseOf(device: DeviceState): Part {
  const { kernels, model, denseState } = device;
  const tensors = [model.flat, ...denseState.slots];
  const length = device.topology.shape.layout.length;
  return {
    name: densePart,
    digest: () => {
      const hash = createHash("sha256");
      for (const tensor of tensors) hash.update(bytesOf(kernels.read(tensor)));
      return hash.digest("hex");
    },
    *bytes() {
      const header = Uint32Array.of(magic, version, length, denseState.slots.length);
      yield new Uint8Array(header.buffer);
      for (const tensor of tensors) yield bytesOf(kernels.read(tensor));
    },
  };
}

function restoreDense(device: DeviceState, bytes: Uint8Array, name: string): void {
  const { kernels, model, denseState } = device;
  for (const [i, values] of decodeDense(bytes, name).entries()) {
    const tensor = i === 0 ? model.flat : denseState.slots[i - 1];
    if (tensor === undefined || values.length !== (tensor.shape[0] ?? 0)) {
      throw new CheckpointCorruptError(name, "it holds another model or optimizer");
    }
    kernels.write(tensor, values);
  }
}

/** Parameters, then optimizer slots, each flat. @throws CheckpointCorruptError */
export function decodeDense(bytes: Uint8Array, name: string): Float32Array[] {
  const aligned = new Uint8Array(bytes); // A copy, from the start of its buffer.
  if (aligned.byteLength < headerBytes) throw new CheckpointCorruptError(name, "it has no header");
  const [first, second, length = 0, slots = 0] = new Uint32Array(aligned.buffer, 0, 4);
  const wanted = headerBytes + 4 * length * (1 + slots);
  if (first !== magic || second !== version || aligned.byteLength !== wanted) {
    throw new CheckpointCorruptError(name, `${aligned.byteLength} bytes, expected ${wanted}`);
  }
  return Array.from(
    { length: 1 + slots },
    (_, i) => new Float32Array(aligned.buffer, headerBytes + 4 * length * i, length),
  );
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
