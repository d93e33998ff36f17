// The state of a model's optimizer in PyTorch's form. Its keys are parameter numbers, in the order
// of the state dict, for torch.optim, and parameter names for TorchRec. State of rows passes
// through in chunks; rows that were never trained get their initial state.
//
// n = rows of a chunk, D = columns of a row, W = floats of a row's state.

import {
  CheckpointCorruptError,
  decodeDense,
  densePart,
  InvalidOptionError,
  initialRowState,
  type JobSpec,
  needState,
  type OpenCheckpoint,
  type Progress,
  rowsOfTable,
  type StoredTable,
} from "../../../internal.ts";
import { type ForeignKind, type ForeignTensor, permuted } from "../dlrm-names/foreign-tensors.ts";
import { denseStateForm, rowStateForm } from "../dlrm-names/state-names.ts";
import { TensorToWrite, type ValueToWrite } from "../torch/pickle.ts";
import { denseTensors, type ExportedModel } from "./exported-model.ts";
import { bytesOf, type FilePiece, numbersPiece } from "./file-pieces.ts";

type StateValue = ValueToWrite<FilePiece>;

/** Approximate bytes of a chunk of rows. */
const chunkBytes = 2 ** 20;

/**
 * The optimizer's state for the tensors of the state dict, in their order.
 * @throws InvalidOptionError where PyTorch has no such state; InputUnusableError where the
 * checkpoint was exported without it
 */
export function optimizerState(
  kind: ForeignKind,
  model: ExportedModel,
  tensors: readonly ForeignTensor[],
): StateValue {
  const { checkpoint, graph } = model;
  const { job, manifest, store } = checkpoint;
  needState(store, "`--with-optimizer`");
  const names = checkedNames(kind, job);
  const [, ...slots] = decodeDense(store.readWholePart(manifest, densePart), densePart);
  const dense = slots.map((slot) => {
    if (slot.length === graph.layout.length) return denseTensors(graph, slot);
    throw new CheckpointCorruptError(densePart, "the state of its optimizer is of another model");
  });
  const stateOf = (tensor: ForeignTensor): [string, StateValue][] => {
    const { own } = tensor;
    if ("table" in own) return rowState(kind, model, own.table, tensor, names.rows);
    return dense.map((slot, i) => {
      const found = slot.find(({ name }) => name === own.parameter);
      if (found === undefined) throw new RangeError(`There is no parameter ${own.parameter}`);
      const numbers = numbersPiece(permuted(found.values, tensor.columns));
      return [names.dense[i] ?? "", new TensorToWrite(tensor.shape, numbers)];
    });
  };
  const states = tensors.flatMap((tensor, i) => {
    const entries = stateOf(tensor);
    // SGD with momentum has no step count, as in PyTorch.
    const isCounted = entries.length > 0 && entries[0]?.[0] !== "momentum_buffer";
    const state = new Map<string, StateValue>([
      ...(isCounted ? ([["step", manifest.cut]] as const) : []),
      ...entries,
    ]);
    const key = kind === "dlrm" ? i : tensor.name;
    return entries.length === 0 ? [] : [[key, state] as const];
  });
  const params = tensors.map(({ name }, i) => (kind === "dlrm" ? i : name));
  return {
    state: new Map<number | string, StateValue>(states),
    param_groups: [{ ...groupOf(job), params }],
  };
}

function rowState(
  kind: ForeignKind,
  { checkpoint, tables }: ExportedModel,
  table: number,
  { shape: [rows = 0] }: ForeignTensor,
  names: readonly string[],
): [string, StateValue][] {
  const stored = tables.find((one) => one.stored.table === table)?.stored;
  if (stored === undefined) throw new RangeError(`There is no table ${table}`);
  const { dim, name } = stored.spec;
  const { perElement } = stored.state;
  return names.map((own, i) => {
    const isWide = i < perElement;
    const columns = isWide ? dim : 1;
    const piece = statePiece(checkpoint, stored, i * dim, columns);
    const shape = isWide ? [rows, dim] : [rows];
    const key = kind === "torchrec" ? `${name}.${own}` : own;
    return [key, new TensorToWrite(shape, piece)];
  });
}

/** @throws InvalidOptionError */
function checkedNames(kind: ForeignKind, { optimizer, model }: JobSpec) {
  const refuse = (what: string) => {
    const message = `Expected an optimizer whose state PyTorch has, got ${what}`;
    const instead = "leave `--with-optimizer` out, or export to `.osiris`";
    return new InvalidOptionError("withOptimizer", `${message}: ${instead}`);
  };
  const { dense, sparse } = optimizer;
  // The exported weights are the averages, but the state belongs to the weights before averaging.
  if (dense.ema !== undefined || sparse.ema !== undefined) throw refuse("moving averages (`ema`)");
  if (model.tables.some(({ l2Scope }) => l2Scope === "decayed")) throw refuse("rows that decay");
  const rows = rowStateForm(kind, sparse.kind);
  if (rows === undefined) throw refuse(`\`${sparse.kind}\``);
  return { rows: rows.names, dense: denseStateForm(dense.kind).names };
}

/** The hyperparameters of the dense optimizer, as an entry of torch.optim's `param_groups`. */
function groupOf({ optimizer: { dense } }: JobSpec): Readonly<Record<string, StateValue>> {
  const { learningRate: lr } = dense;
  switch (dense.kind) {
    case "sgd":
      return { lr, momentum: dense.momentum, dampening: 0, weight_decay: 0, nesterov: false };
    case "adagrad": {
      const { epsilon: eps, initialAccumulator } = dense;
      const others = { initial_accumulator_value: initialAccumulator, eps };
      return { lr, lr_decay: 0, weight_decay: 0, ...others };
    }
    case "adam":
    case "lamb": {
      const { beta1, beta2, epsilon: eps, weightDecay } = dense;
      return { lr, betas: [beta1, beta2], eps, weight_decay: weightDecay, amsgrad: false };
    }
    default:
      return dense satisfies never;
  }
}

/** State of all rows of a table: `columns` floats per row, from float `column` of its state on. */
function statePiece(
  checkpoint: OpenCheckpoint,
  stored: StoredTable,
  column: number,
  columns: number,
): FilePiece {
  const { width } = stored;
  const { rows, dim } = stored.spec;
  const initial = initialRowState(checkpoint.job.optimizer.sparse, dim);
  const columnState = initial.subarray(column, column + columns);

  async function* read(progress: Progress, begin: number): AsyncGenerator<Uint8Array> {
    const most = Math.max(1, Math.floor(chunkBytes / (4 * columns)));
    const untouched = (count: number) => {
      const values = new Float32Array(count * columns);
      for (let i = 0; i < count; i++) values.set(columnState, i * columns);
      return values;
    };
    let first = begin / (4 * columns);
    let values = untouched(Math.min(most, rows - first));
    for await (const chunk of rowsOfTable(checkpoint, stored, progress)) {
      for (const [i, row] of chunk.rows.entries()) {
        if (row < first) continue;
        while (row >= first + values.length / columns) {
          yield bytesOf(values);
          first += values.length / columns;
          values = untouched(Math.min(most, rows - first));
        }
        const from = i * width + column;
        values.set(chunk.state.subarray(from, from + columns), (row - first) * columns);
      }
    }
    for (; values.length > 0; values = untouched(Math.min(most, rows - first))) {
      yield bytesOf(values);
      first += values.length / columns;
      await progress.breathe();
    }
  }
  return { bytes: 4 * rows * columns, sourceBytes: stored.bytes, read };
}
