// Reads the optimizer state in a PyTorch file, keyed by parameter: torch.optim numbers its
// parameters; TorchRec's fused optimizers name them (`TABLE.momentum1` beside `sum`).

import { type Pickled, type PickledDict, PickledTensor } from "../torch/pickled-values.ts";
import type { OptimizerRecord, ParameterState, SourceTensor } from "./tensor-source.ts";

/** Reads tensors of the file. */
interface Reading {
  tensorOf(tensor: PickledTensor): SourceTensor;
  /** The step count in a one-element tensor; undefined: it is not a step count. */
  stepOf(tensor: PickledTensor): number | undefined;
}

/** Parses an optimizer's state dict; undefined: `value` is not one. */
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
