// Decides which optimizer state an import takes from a file. The rows' state is imported only if
// every table has it, and the dense parameters' state only if each of them has it. State that does
// not fit the job's optimizer starts fresh, and the reason is reported.
//
// R = rows, D = columns of a row.

import type { JobSpec, SparseOptimizerSpec } from "../../../internal.ts";
import { type ForeignTensor, foreignKinds } from "../dlrm-names/foreign-tensors.ts";
import { denseStateForm, rowStateForm, type StateForm } from "../dlrm-names/state-names.ts";
import {
  isFloat,
  type OptimizerRecord,
  type ParameterState,
  type SourceTensor,
} from "./tensor-source.ts";

/** Whether the state of the rows, or of the dense parameters, was imported. */
export interface StateReport {
  /** `fresh`: not imported; `none`: the job's optimizer has no state. */
  readonly state: "imported" | "fresh" | "none";
  /** Why the state starts fresh. */
  readonly why?: string;
}

/** The optimizer state that an import takes from a file. */
export interface TakenState {
  /** State tensors by parameter name, in the order of the optimizer's slots. */
  readonly states: ReadonlyMap<string, readonly SourceTensor[]>;
  /** Step count of the state; 0: the state counts no steps. */
  readonly step: number;
  readonly dense: StateReport;
  readonly sparse: StateReport;
}

/** The forms of row state in the programs that have such an optimizer with state. */
function rowFormsOf(kind: SparseOptimizerSpec["kind"]): StateForm[] {
  const forms = foreignKinds.flatMap((program) => rowStateForm(program, kind) ?? []);
  return forms.filter(({ names }) => names.length > 0);
}

function denseFormsOf({ dense }: JobSpec["optimizer"]): StateForm[] {
  const isStateless = dense.kind === "sgd" && dense.momentum === 0;
  return isStateless ? [] : [denseStateForm(dense.kind)];
}

/** Optimizers whose update depends on the step count (bias correction). */
const counting = new Set(["adam", "lamb", "partialRowWiseAdam", "partialRowWiseLamb"]);

/**
 * Selects the state that `job` takes from a file. `stateOf`: the state of a parameter by its name
 * in the other program, or the reason why there is no state.
 */
export function takeState(
  { optimizer }: JobSpec,
  wanted: readonly ForeignTensor[],
  stateOf: ((name: string) => ParameterState | undefined) | string,
): TakenState {
  const states = new Map<string, readonly SourceTensor[]>();
  const steps = new Set<number>();
  const take = (kind: string, forms: readonly StateForm[], tensors: readonly ForeignTensor[]) => {
    if (forms.length === 0 && kind !== "ftrl") return none;
    if (typeof stateOf === "string") return fresh(stateOf);
    const pairs = tensors.map((tensor) => ({ tensor, state: stateOf(tensor.name) }));
    const form = forms.find((one) => pairs.every(({ tensor, state }) => fits(one, tensor, state)));
    if (form === undefined) return fresh(`the file has no state of \`${kind}\` for each of them`);
    const counted = new Set(pairs.map(({ state }) => state?.step));
    const [step] = counted;
    const isCounted = counted.size === 1 && step !== undefined;
    const agrees = isCounted && (steps.size === 0 || steps.has(step));
    if (counting.has(kind) && !agrees) {
      return fresh(
        `\`${kind}\` depends on the step count, which the file lacks or which differs between parameters`,
      );
    }
    if (isCounted) steps.add(step);
    for (const { tensor, state } of pairs) {
      const found = form.names.map((name) => state?.tensors.get(name));
      states.set(
        tensor.name,
        found.filter((one) => one !== undefined),
      );
    }
    return { state: "imported" } as const;
  };
  const isTable = ({ own }: ForeignTensor) => "table" in own;
  const { dense, sparse } = optimizer;
  // The optimizer that depends on the step count comes first, as it determines the step.
  const ofRows = () => take(sparse.kind, rowFormsOf(sparse.kind), wanted.filter(isTable));
  const ofDense = () =>
    take(
      dense.kind,
      denseFormsOf(optimizer),
      wanted.filter((one) => !isTable(one)),
    );
  const first = counting.has(dense.kind) ? ofDense() : undefined;
  const rows: StateReport = ofRows();
  return { states, dense: first ?? ofDense(), sparse: rows, step: Math.max(0, ...steps) };
}

const none: StateReport = { state: "none" };

function fresh(why: string): StateReport {
  return { state: "fresh", why };
}

/** Whether a parameter has exactly the state tensors of a form, with the right shapes. */
function fits(
  form: StateForm,
  { shape }: ForeignTensor,
  state: ParameterState | undefined,
): boolean {
  if (state?.tensors.size !== form.names.length) return false;
  return form.names.every((name, i) => {
    const { shape: found, type = "" } = state.tensors.get(name) ?? {};
    if (found === undefined || !isFloat(type)) return false;
    if (form.isWide[i] === true) return `${found}` === `${shape}`;
    return found[0] === shape[0] && found.slice(1).every((extent) => extent === 1);
  });
}

/** Recognises the optimizers that produced a file's state; undefined: unknown. */
export function optimizersOf(
  wanted: readonly ForeignTensor[],
  stateOf: (name: string) => ParameterState | undefined,
) {
  const has = (forms: readonly StateForm[], isTable: boolean) => {
    const tensors = wanted.filter((tensor) => "table" in tensor.own === isTable);
    return forms.some((form) => tensors.every((one) => fits(form, one, stateOf(one.name))));
  };
  const rows = (["rowWiseAdagrad", "adagrad", "partialRowWiseAdam", "adam"] as const).find((kind) =>
    has(rowFormsOf(kind), true),
  );
  const dense = (["adagrad", "adam"] as const).find((kind) => has([denseStateForm(kind)], false));
  return { dense, sparse: rows };
}

/** Returns a lookup of a parameter's state by name in an optimizer's record. */
export function stateIn(
  record: OptimizerRecord,
  names: ReadonlyMap<string, string>,
  plainOf: (name: string) => string,
): (name: string) => ParameterState | undefined {
  const byName = new Map<string, ParameterState>();
  // torch.optim numbers parameters in the order of the state dict.
  const ordered = [...names.keys()];
  for (const [key, state] of record) {
    const name = typeof key === "number" ? ordered[key] : plainOf(key);
    if (name !== undefined) byName.set(name, state);
  }
  return (name) => byName.get(name);
}
