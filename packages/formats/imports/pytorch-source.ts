// Reads a state dict from a torch.save file: the saved value itself, or an entry of a saved
// checkpoint dict, which may have the optimizer's state too, keyed by parameter: torch.optim
// numbers its parameters; TorchRec's fused optimizers name them (`TABLE.momentum1` beside `sum`).

import { type DiskFile, InputUnusableError } from "../../../internal.ts";
import { kindOf, type Pickled, type PickledDict, PickledTensor } from "../torch/pickled-values.ts";
import { notesEntry, openTorchFile, type TorchFile } from "../torch/read-torch-file.ts";
import {
  type OptimizerRecord,
  type ParameterState,
  type SourceTensor,
  someOf,
  type TensorSource,
} from "./tensor-source.ts";

/** Usual keys of the model's and the optimizer's state dict in checkpoint dicts. */
const stateKeys = ["state_dict", "model_state_dict", "model"];
const optimizerKeys = ["opt_state_dict", "optimizer_state_dict", "optimizer"];

/** Opens the file. @throws InputUnusableError where it contains no state dict */
export function openPyTorch(file: DiskFile, path: string): TensorSource {
  const torch = openTorchFile(file, path);
  const state = stateIn(torch.value, path);
  const tensors = new Map<string, SourceTensor>();
  for (const [name, tensor] of state) tensors.set(name, sourceOf(torch, tensor));
  return {
    path,
    format: "PyTorch",
    tensors,
    notes: notesOf(torch, path),
    optimizer: optimizerIn(torch),
    close: () => torch.close(),
  };
}

function sourceOf(torch: TorchFile, tensor: PickledTensor): SourceTensor {
  return {
    shape: tensor.shape,
    type: tensor.storage.type,
    check: (progress) => torch.check(tensor, progress),
    read: (first, count) => torch.read(tensor, first, count),
  };
}

/** The tensors of the state dict. @throws InputUnusableError */
function stateIn(value: Pickled, path: string): Map<string, PickledTensor> {
  const refuse = (why: string) => new InputUnusableError(path, `Expected ${path} ${why}`);
  if (!(value instanceof Map)) throw refuse(`to hold a state dict, got ${kindOf(value)}`);
  const inner = stateKeys.map((key) => value.get(key)).find((one) => one instanceof Map);
  const state = (inner ?? value) as PickledDict;
  const tensors = new Map<string, PickledTensor>();
  const others: string[] = [];
  for (const [key, value] of state) {
    if (value instanceof PickledTensor) tensors.set(String(key), value);
    else others.push(String(key));
  }
  if (tensors.size === 0) {
    const keys = someOf([...value.keys()].map(String));
    throw refuse(`to hold a state dict, got a dict without tensors, of ${keys || "nothing"}`);
  }
  if (others.length === 0) return tensors;
  throw refuse(`to hold tensors alone in its state dict; these are none: ${someOf(others)}`);
}

/** The optimizer's state dict; undefined: the file has none. */
function optimizerIn(torch: TorchFile): OptimizerRecord | undefined {
  const { value } = torch;
  if (!(value instanceof Map)) return undefined;
  const found = optimizerKeys.map((key) => value.get(key)).find((one) => one instanceof Map);
  const state = found instanceof Map ? found.get("state") : undefined;
  if (!(state instanceof Map)) return undefined;
  const record = new Map<number | string, ParameterState>();
  for (const [key, value] of state) {
    if ((typeof key !== "number" && typeof key !== "string") || !(value instanceof Map)) continue;
    record.set(key, parameterStateOf(torch, value));
  }
  return record;
}

function parameterStateOf(torch: TorchFile, own: PickledDict): ParameterState {
  const tensors = new Map<string, SourceTensor>();
  let step: number | undefined;
  for (const [name, value] of own) {
    const last = String(name).split(".").at(-1) ?? "";
    if (last === "step" || last === "iter") {
      step = value instanceof PickledTensor ? stepIn(torch, value) : stepOf(value);
    } else if (value instanceof PickledTensor) tensors.set(last, sourceOf(torch, value));
  }
  return { tensors, step };
}

/** The step count in a one-element tensor; undefined: it is not a step count. */
function stepIn(torch: TorchFile, tensor: PickledTensor): number | undefined {
  const { shape, storage } = tensor;
  if (shape.some((extent) => extent !== 1)) return undefined;
  const bytes = torch.read(tensor, 0, 1);
  const view = new DataView(bytes.buffer);
  const read: Readonly<Record<string, () => number>> = {
    float32: () => view.getFloat32(0, true),
    float64: () => view.getFloat64(0, true),
    int64: () => Number(view.getBigInt64(0, true)),
    int32: () => view.getInt32(0, true),
  };
  return stepOf(read[storage.type]?.());
}

/** A step count; undefined: the value is not one. */
function stepOf(value: Pickled | undefined): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The notes of an Osiris export, or none. @throws InputUnusableError where they are malformed */
function notesOf(torch: TorchFile, path: string): Readonly<Record<string, string>> {
  const text = torch.note(notesEntry);
  if (text === undefined) return {};
  try {
    const notes: unknown = JSON.parse(text);
    const entries = Object.entries(notes as object).filter(([, own]) => typeof own === "string");
    return Object.fromEntries(entries) as Readonly<Record<string, string>>;
  } catch (cause) {
    const message = `Expected \`${notesEntry}\` in ${path} to be notes of an export in JSON`;
    throw new InputUnusableError(path, message, { cause });
  }
}
