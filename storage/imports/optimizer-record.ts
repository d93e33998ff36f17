// The state of an optimizer in a file of PyTorch, by the parameter that it belongs to: that of
// torch.optim, whose parameters are numbered, and that of TorchRec's fused optimizers, whose
// parameters have names (`TABLE.momentum1` beside `sum`).

import { type Pickled, type PickledDict, PickledTensor } from "../torch-files/pickled-values.ts";
import type { OptimizerRecord, ParameterState, SourceTensor } from "./tensor-source.ts";

/** How tensors of the file are read. */
interface Reading {
  tensorOf(tensor: PickledTensor): SourceTensor;
  /** The number in a tensor of one; undefined: it counts no steps. */
  stepOf(tensor: PickledTensor): number | undefined;
}

/** The state of an optimizer; undefined where the value is none. */
export function optimizerRecordOf(
  value: Pickled | undefined,
  reading: Reading,
): OptimizerRecord | undefined {
  const state = value instanceof Map ? value.get("state") : undefined;
  if (!(state instanceof Map)) return undefined;
  const record = new Map<number | string, ParameterState>();
  for (const [key, own] of state) {
    if ((typeof key !== "number" && typeof key !== "string") || !(own instanceof Map)) continue;
    record.set(key, parameterStateOf(own, reading));
  }
  return record;
}

function parameterStateOf(own: PickledDict, { tensorOf, stepOf }: Reading): ParameterState {
  const tensors = new Map<string, SourceTensor>();
  let step: number | undefined;
  for (const [name, value] of own) {
    const last = String(name).split(".").at(-1) ?? "";
    if (last === "step" || last === "iter") {
      step = value instanceof PickledTensor ? stepOf(value) : wholeOf(value);
    } else if (value instanceof PickledTensor) tensors.set(last, tensorOf(value));
  }
  return { tensors, step };
}

function wholeOf(value: Pickled): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
