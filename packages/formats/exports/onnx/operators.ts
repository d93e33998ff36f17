// A builder of ONNX graphs: collects nodes, constants and inputs.

import type { Attribute, Name } from "../../../../internal.ts";
import { nodeBytes, type Port, type TensorType } from "./messages.ts";

/** A constant tensor, stored in the graph. */
export interface Constant {
  readonly name: Name;
  readonly type: TensorType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** A graph to which operators, constants and inputs are added, by name. */
export interface Operators {
  readonly nodes: readonly Uint8Array[];
  readonly constants: readonly Constant[];
  readonly inputs: readonly Port[];
  input(port: Port): Name;
  numbers(shape: readonly number[], values: readonly number[]): Name;
  integers(values: readonly (number | bigint)[], shape?: readonly number[]): Name;
  /** An unsigned 64-bit constant of shape (1). */
  word(value: bigint): Name;
  op(type: string, inputs: readonly Name[], attributes?: Readonly<Record<string, Attribute>>): Name;
  /** Names an operator's output, as the graph's outputs need. */
  named(name: Name, from: Name): void;
}

/** An empty graph. Equal constants are stored once. */
export function createOperators(): Operators {
  const nodes: Uint8Array[] = [];
  const constants = new Map<string, Constant>();
  const inputs: Port[] = [];
  const constant = (
    type: TensorType,
    shape: readonly number[],
    array: Float32Array | BigInt64Array | BigUint64Array,
  ) => {
    const bytes = new Uint8Array(array.buffer);
    const key = `${type} ${shape} ${Buffer.from(bytes).toString("base64")}`;
    const found = constants.get(key) ?? { name: `constant.${constants.size}`, type, shape, bytes };
    constants.set(key, found);
    return found.name;
  };
  return {
    nodes,
    inputs,
    get constants() {
      return [...constants.values()];
    },
    input(port) {
      inputs.push(port);
      return port.name;
    },
    numbers: (shape, values) => constant("float32", shape, Float32Array.from(values)),
    integers: (values, shape = [values.length]) =>
      constant("int64", shape, BigInt64Array.from(values, BigInt)),
    word: (value) => constant("uint64", [1], BigUint64Array.of(value)),
    op(type, own, attributes = {}) {
      const output = `${type}.${nodes.length}`;
      nodes.push(nodeBytes(type, own, output, attributes));
      return output;
    },
    named(name, from) {
      nodes.push(nodeBytes("Identity", [from], name, {}));
    },
  };
}
