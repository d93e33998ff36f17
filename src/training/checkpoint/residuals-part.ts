// The part of a checkpoint with a device's residuals: the part of its units' sums that the top-k
// all-reduce has not sent yet (src/exchange/top-k-layout.ts). A residual belongs to a slice of the
// job, so that any number of devices can load it. Residuals are no part of the model: they are in
// no digest, and an exported or saved model leaves them out.
//
//   residuals-4.2:  "OSRR" | version u32 | count u32 | n u32*count | f32*n …      (slices 4 and 5)

import { CheckpointCorruptError } from "../../errors/errors.ts";
import type { DeviceState } from "../step/device-state.ts";
import { residualsOfPart, residualsPartName } from "./part-names.ts";

type ResidualsDevice = Pick<DeviceState, "kernels" | "exchange">;

const magic = 0x5252_534f;
const version = 1;
const headerWords = 3;

/** Bytes of a part with residuals of these lengths. */
export function residualsBytes(lengths: readonly number[]): number {
  return 4 * lengths.reduce((sum, length) => sum + 1 + length, headerWords);
}

/** The part with the residuals of a device, if it has any. */
export function residualsParts({ kernels, exchange }: ResidualsDevice) {
  const { residuals } = exchange.gradients;
  const [first] = residuals;
  if (first === undefined) return [];
  return [
    {
      name: residualsPartName({ first: first.slice, count: residuals.length }),
      leaves: async (): Promise<string[]> => [],
      async *bytes(): AsyncGenerator<Uint8Array> {
        const lengths = residuals.map(({ values }) => values.shape[0] ?? 0);
        yield bytesOf(Uint32Array.of(magic, version, residuals.length, ...lengths));
        for (const { values } of residuals) yield bytesOf(kernels.read(values));
      },
    },
  ];
}

/** Restores the device's residuals that a part has. @throws CheckpointCorruptError */
export function restoreResiduals(
  { kernels, exchange }: ResidualsDevice,
  bytes: Uint8Array,
  name: string,
): void {
  const refuse = (reason: string) => new CheckpointCorruptError(name, reason);
  const { first = 0, count = 0 } = residualsOfPart(name) ?? {};
  const aligned = new Uint8Array(bytes); // A copy, from the start of its buffer.
  const header = 4 * (headerWords + count);
  if (aligned.length < header) throw refuse("it has no header");
  const [own, ofVersion, written, ...lengths] = new Uint32Array(aligned.buffer, 0, header / 4);
  const wanted = residualsBytes(lengths);
  if (own !== magic || ofVersion !== version || written !== count || aligned.length !== wanted) {
    throw refuse(`${aligned.length} bytes, expected ${wanted} with ${count} residuals`);
  }
  let at = header;
  for (const [i, length] of lengths.entries()) {
    const mine = exchange.gradients.residuals.find(({ slice }) => slice === first + i);
    if (mine !== undefined) {
      if (mine.values.shape[0] !== length) throw refuse("it holds residuals of another model");
      kernels.write(mine.values, new Float32Array(aligned.buffer, at, length));
    }
    at += 4 * length;
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
