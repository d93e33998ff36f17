// Encodes the messages of onnx.proto (IR 9) that a model needs. Field numbers and types are those
// of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.

import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { Attribute } from "../../../../internal.ts";

/** Tensor element types, with their numbers in `TensorProto.DataType`. */
export const types = { float32: 1, int64: 7, uint64: 13 } as const;

/** An element type. */
export type TensorType = keyof typeof types;

const irVersion = 9;
/** The operator set version; runtimes since 2023 support it. */
export const opset = 18;

/** A NodeProto: an operator with its inputs, one output and attributes. */
export function nodeBytes(
  type: string,
  inputs: readonly string[],
  output: string,
  attributes: Readonly<Record<string, Attribute>>,
): Uint8Array {
  const writer = new BinaryWriter();
  for (const name of inputs) writer.tag(1, WireType.LengthDelimited).string(name);
  writer.tag(2, WireType.LengthDelimited).string(output);
  writer.tag(3, WireType.LengthDelimited).string(output);
  writer.tag(4, WireType.LengthDelimited).string(type);
  for (const [name, value] of Object.entries(attributes)) {
    writer.tag(5, WireType.LengthDelimited).bytes(attributeBytes(name, value));
  }
  return writer.finish();
}

function attributeBytes(name: string, value: Attribute): Uint8Array {
  const writer = new BinaryWriter().tag(1, WireType.LengthDelimited).string(name);
  const typed = (type: number) => writer.tag(20, WireType.Varint).int32(type).finish();
  if (typeof value === "number") {
    writer.tag(3, WireType.Varint).int64(value);
    return typed(2);
  }
  if (typeof value === "string") {
    writer.tag(4, WireType.LengthDelimited).string(value);
    return typed(3);
  }
  if ("float" in value) {
    writer.tag(2, WireType.Bit32).float(value.float);
    return typed(1);
  }
  for (const one of value) writer.tag(8, WireType.Varint).int64(one);
  return typed(7);
}

/** Location of a tensor's bytes in a file beside the model. */
export interface ExternalPlace {
  /** Name of the file, in the model's own directory. */
  readonly file: string;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * A TensorProto without its numbers, which follow as a field (`rawField`) or are in another file
 * (`external`).
 */
export function tensorBytes(
  name: string,
  type: TensorType,
  shape: readonly number[],
  external?: ExternalPlace,
): Uint8Array {
  const writer = new BinaryWriter();
  for (const extent of shape) writer.tag(1, WireType.Varint).int64(extent);
  writer.tag(2, WireType.Varint).int32(types[type]);
  writer.tag(8, WireType.LengthDelimited).string(name);
  if (external === undefined) return writer.finish();
  const { file: location, offset, bytes } = external;
  const place = { location, offset: String(offset), length: String(bytes) };
  for (const [key, value] of Object.entries(place)) {
    writer.tag(13, WireType.LengthDelimited).bytes(entryBytes(key, value));
  }
  return writer.tag(14, WireType.Varint).int32(1).finish();
}

/** Tag and length of a tensor's `raw_data`. */
export function rawField(bytes: number): Uint8Array {
  return headOf(9, bytes);
}

/** Tag and length of an initializer in a graph. */
export function initializerField(bytes: number): Uint8Array {
  return headOf(5, bytes);
}

/** Tag and length of the graph, which is the last field of a model. */
export function graphField(bytes: number): Uint8Array {
  return headOf(7, bytes);
}

function headOf(field: number, bytes: number): Uint8Array {
  return new BinaryWriter().tag(field, WireType.LengthDelimited).uint32(bytes).finish();
}

/** An input or output of the graph. A string in `shape` is a symbolic (dynamic) dimension. */
export interface Port {
  readonly name: string;
  readonly type: TensorType;
  readonly shape: readonly (number | string)[];
}

/** A graph without its initializers. */
export function graphBytes(graph: {
  readonly name: string;
  readonly nodes: readonly Uint8Array[];
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
}): Uint8Array {
  const writer = new BinaryWriter();
  for (const node of graph.nodes) writer.tag(1, WireType.LengthDelimited).bytes(node);
  writer.tag(2, WireType.LengthDelimited).string(graph.name);
  for (const port of graph.inputs) writer.tag(11, WireType.LengthDelimited).bytes(portBytes(port));
  for (const port of graph.outputs) writer.tag(12, WireType.LengthDelimited).bytes(portBytes(port));
  return writer.finish();
}

function portBytes({ name, type, shape }: Port): Uint8Array {
  const extents = new BinaryWriter();
  for (const extent of shape) {
    const dimension = new BinaryWriter();
    if (typeof extent === "number") dimension.tag(1, WireType.Varint).int64(extent);
    else dimension.tag(2, WireType.LengthDelimited).string(extent);
    extents.tag(1, WireType.LengthDelimited).bytes(dimension.finish());
  }
  const tensor = new BinaryWriter().tag(1, WireType.Varint).int32(types[type]);
  tensor.tag(2, WireType.LengthDelimited).bytes(extents.finish());
  const any = new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(tensor.finish());
  const writer = new BinaryWriter().tag(1, WireType.LengthDelimited).string(name);
  return writer.tag(2, WireType.LengthDelimited).bytes(any.finish()).finish();
}

/** A model without its graph. */
export function modelBytes(notes: Readonly<Record<string, string>>): Uint8Array {
  const operators = new BinaryWriter().tag(1, WireType.LengthDelimited).string("");
  const writer = new BinaryWriter().tag(1, WireType.Varint).int64(irVersion);
  writer.tag(2, WireType.LengthDelimited).string("osiris");
  const version = operators.tag(2, WireType.Varint).int64(opset).finish();
  writer.tag(8, WireType.LengthDelimited).bytes(version);
  for (const [key, value] of Object.entries(notes)) {
    writer.tag(14, WireType.LengthDelimited).bytes(entryBytes(key, value));
  }
  return writer.finish();
}

function entryBytes(key: string, value: string): Uint8Array {
  const writer = new BinaryWriter().tag(1, WireType.LengthDelimited).string(key);
  return writer.tag(2, WireType.LengthDelimited).string(value).finish();
}
