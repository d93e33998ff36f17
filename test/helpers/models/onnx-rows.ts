// The rows that an exported model computes for raw ids, without the rest of the model.

import { InferenceSession, Tensor } from "onnxruntime-web";
import {
  graphBytes,
  graphField,
  initializerField,
  modelBytes,
  rawField,
  tensorBytes,
} from "../../../packages/formats/exports/onnx/messages.ts";
import { createOperators } from "../../../packages/formats/exports/onnx/operators.ts";
import type { RawIds } from "../../../packages/formats/exports/onnx/raw-ids.ts";
import { rowsOfRawIds } from "../../../packages/formats/exports/onnx/rows-of-ids.ts";
import type { RandomStream } from "../../../src/ports/random.ts";

/** The row of each id in ONNX Runtime. */
export async function rowsInOnnx(raw: RawIds, ids: readonly bigint[]): Promise<number[]> {
  const to = createOperators();
  const given = to.input({ name: "ids", type: "int64", shape: ["n"] });
  to.named("rows", rowsOfRawIds(to, given, raw, undefined));
  const { nodes, inputs, constants } = to;
  const outputs = [{ name: "rows", type: "int64", shape: ["n"] }] as const;
  const tensors = constants.flatMap(({ name, type, shape, bytes }) => {
    const tensor = Buffer.concat([tensorBytes(name, type, shape), rawField(bytes.length), bytes]);
    return [initializerField(tensor.length), tensor];
  });
  const graph = Buffer.concat([graphBytes({ name: "rows", nodes, inputs, outputs }), ...tensors]);
  const model = Buffer.concat([modelBytes({}), graphField(graph.length), graph]);
  const session = await InferenceSession.create(model, { executionProviders: ["wasm"] });
  try {
    const fed = new Tensor("int64", BigInt64Array.from(ids), [ids.length]);
    const { rows } = await session.run({ ids: fed });
    return Array.from(rows?.data as BigInt64Array, Number);
  } finally {
    await session.release();
  }
}

/** A random integer of up to 64 bits, or of up to 15 digits, of any magnitude. */
export function drawInteger(stream: RandomStream, isWide: boolean): bigint {
  const word = BigInt(stream.below(2 ** 31)) * 2n ** 32n + BigInt(stream.below(2 ** 31)) * 2n;
  const whole = BigInt.asIntN(64, word + BigInt(stream.below(2)));
  const some = whole >> BigInt(stream.below(64));
  const signed = stream.below(2) === 0 ? some : -some;
  return isWide ? signed : signed % 10n ** 15n;
}
