// Reads the initializers of an ONNX model that Osiris exported. The file is parsed field by field
// without loading the tensors, which stay in the model file or in the data file beside it until
// they are read. Field numbers are those of onnx.proto, as in
// packages/formats/exports/onnx/messages.ts.

import { dirname, join } from "node:path";
import { type Disk, type DiskFile, InputUnusableError, onDisk } from "../../../internal.ts";
import { type SourceTensor, type TensorSource, tensorAt } from "./tensor-source.ts";

/** Element type and its bytes, by the type's number in `TensorProto.DataType`. */
const types: Readonly<Record<number, readonly [string, number]>> = {
  1: ["float32", 4],
  7: ["int64", 8],
  10: ["float16", 2],
  11: ["float64", 8],
  16: ["bfloat16", 2],
};

/** Most bytes of a string; the job is stored as one. */
const textBytesMax = 2 ** 26;
/** Bytes of the file that are read at once while parsing. */
const windowBytes = 2 ** 16;
/** Names of constants that belong to the graph (packages/formats/exports/onnx/operators.ts). */
const constant = /^constant\.\d+$/;

/** A protobuf field: its number and its value's byte range; `value`: of a varint field. */
interface Field {
  readonly number: number;
  readonly start: number;
  readonly end: number;
  readonly value: bigint | undefined;
}

/** Opens the model. @throws InputUnusableError where Osiris did not write it, or it is cut short */
export function openOnnx(file: DiskFile, path: string, disk: Disk): TensorSource {
  const walk = createWalker(file, path);
  const notes: Record<string, string> = {};
  const tensors = new Map<string, SourceTensor>();
  const others = new Map<string, DiskFile>();
  let producer = "";
  /** Opens the data file, which must be in the model's directory. */
  const beside = (name: string): DiskFile => {
    const place = join(dirname(path), name);
    if (name === "" || name === ".." || /[/\\\0]/.test(name)) {
      const message = `Expected the tables of ${path} in a file beside it, got ${JSON.stringify(name)}`;
      throw new InputUnusableError(path, message);
    }
    const opened = others.get(name) ?? openBeside(place, path, disk);
    others.set(name, opened);
    return opened;
  };
  const close = () => {
    for (const one of [file, ...others.values()]) one.close();
  };
  try {
    for (const field of walk.fields(0, file.size())) {
      if (field.number === 2) producer = walk.text(field);
      if (field.number === 14) {
        const [key = "", value = ""] = walk.entry(field);
        notes[key] = value;
      }
      if (field.number !== 7) continue;
      for (const member of walk.fields(field.start, field.end)) {
        if (member.number !== 5) continue;
        const { name, tensor } = tensorOf(walk, member, file, path, beside);
        if (!constant.test(name)) tensors.set(name, tensor);
      }
    }
    if (producer !== "osiris") {
      const message = `Expected an ONNX model that \`osiris export\` wrote, but ${path} is of another program`;
      throw new InputUnusableError(path, `${message}: import its state dict instead`);
    }
  } catch (error) {
    for (const opened of others.values()) opened.close();
    throw error;
  }
  return { path, format: "ONNX", tensors, notes, optimizer: undefined, close };
}

function openBeside(place: string, path: string, disk: Disk): DiskFile {
  if (disk.exists(place)) return onDisk("open", place, () => disk.open(place, "read"));
  const message = `Expected the tables of ${path} in ${place}, which is missing`;
  throw new InputUnusableError(place, `${message}: keep both files together`);
}

/** Parses an initializer, inline or external. */
function tensorOf(
  walk: Walker,
  field: Field,
  file: DiskFile,
  path: string,
  beside: (name: string) => DiskFile,
): { readonly name: string; readonly tensor: SourceTensor } {
  const shape: number[] = [];
  let [name, type, start, bytes] = ["", 0, 0, 0];
  const place = new Map<string, string>();
  for (const member of walk.fields(field.start, field.end)) {
    if (member.number === 1) shape.push(Number(member.value));
    if (member.number === 2) type = Number(member.value);
    if (member.number === 8) name = walk.text(member);
    if (member.number === 9) [start, bytes] = [member.start, member.end - member.start];
    if (member.number === 13) place.set(...walk.entry(member));
  }
  const external = place.get("location");
  const from = external === undefined ? file : beside(external);
  if (external !== undefined) {
    [start, bytes] = [Number(place.get("offset") ?? 0), Number(place.get("length"))];
  }
  const [typeName = `type ${type}`, size = 0] = types[type] ?? [];
  const wanted = shape.reduce((product, extent) => product * extent, size);
  if (size > 0 && !(bytes === wanted && start >= 0 && start + bytes <= from.size())) {
    const message = `Expected \`${name}\` of ${path} to have ${wanted} bytes in ${from.path}`;
    throw new InputUnusableError(path, `${message}, got ${bytes} from ${start} on: it is damaged`);
  }
  return { name, tensor: tensorAt(from, start, { type: typeName, size, shape }) };
}

type Walker = ReturnType<typeof createWalker>;

/** An incremental parser of protobuf messages in a file. */
function createWalker(file: DiskFile, path: string) {
  const size = file.size();
  const window = new Uint8Array(windowBytes);
  let [first, held] = [0, 0];
  const refuse = () => {
    const message = `Expected ${path} to be an ONNX model, but it is another file, is cut short or damaged`;
    return new InputUnusableError(path, message);
  };
  const byteAt = (at: number): number => {
    if (at >= size) throw refuse();
    if (at < first || at >= first + held) {
      first = at;
      held = onDisk("read", path, () => file.read(window, at));
    }
    return window[at - first] ?? 0;
  };
  const varint = (at: number): { readonly value: bigint; readonly end: number } => {
    let value = 0n;
    for (let i = 0; i < 10; i++) {
      const byte = byteAt(at + i);
      value |= BigInt(byte & 0x7f) << BigInt(7 * i);
      if (byte < 0x80) return { value: BigInt.asUintN(64, value), end: at + i + 1 };
    }
    throw refuse();
  };
  /** The fields of the message between two offsets. @throws InputUnusableError */
  function* fields(from: number, to: number): Generator<Field> {
    for (let at = from; at < to; ) {
      const tag = varint(at);
      const number = Number(tag.value >> 3n);
      const kind = Number(tag.value & 7n);
      const { value, end: start } =
        kind === 0 || kind === 2 ? varint(tag.end) : { value: 0n, end: tag.end };
      const bytes = { 0: 0, 1: 8, 2: Number(value), 5: 4 }[kind];
      if (bytes === undefined || start + bytes > to || number === 0) throw refuse();
      at = start + bytes;
      yield { number, start, end: at, value: kind === 0 ? value : undefined };
    }
  }
  const text = ({ start, end }: Field): string => {
    if (end - start > textBytesMax) throw refuse();
    const bytes = new Uint8Array(end - start);
    onDisk("read", path, () => file.read(bytes, start));
    return new TextDecoder().decode(bytes);
  };
  const entry = (field: Field): [string, string] => {
    let [key, value] = ["", ""];
    for (const member of fields(field.start, field.end)) {
      if (member.number === 1) key = text(member);
      if (member.number === 2) value = text(member);
    }
    return [key, value];
  };
  return { fields, text, entry };
}
