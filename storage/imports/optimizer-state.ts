// Which state of an optimizer a job takes from a file. State goes over whole or not at all: that of
// the rows where every table has it, that of the dense parameters where each of them has it. What
// does not fit the job's optimizer begins anew, with the reason told.
//
// R = rows, D = columns of a row.

import type { SparseOptimizerSpec } from "../../src/embedding/tables/options.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { ForeignTensor } from "../dlrm-names/counterpart.ts";
import {
  isFloat,
  type OptimizerRecord,
  type ParameterState,
  type SourceTensor,
} from "./tensor-source.ts";

/** What became of the state of the rows, or of the dense parameters. */
export interface StateReport {
  /** `none`: the optimizer of the job has no state. */
  readonly state: "imported" | "fresh" | "none";
  /** Why it begins anew. */
  readonly why?: string;
}

/** The state that an import takes. */
export interface TakenState {
  /** By the names of the file's tensors: state of the optimizer, in the order of its slots. */
  readonly states: ReadonlyMap<string, readonly SourceTensor[]>;
  /** Steps behind the state; 0: it counts none. */
  readonly step: number;
  readonly dense: StateReport;
  readonly sparse: StateReport;
}

/** Names of a state, and whether each is as wide as the row; false: a number a row. */
interface Form {
  readonly names: readonly string[];
  readonly isWide: readonly boolean[];
}

/** Forms that states of rows have in torch.optim, in facebookresearch/dlrm and in FBGEMM. */
function formsOf(kind: SparseOptimizerSpec["kind"]): readonly Form[] {
  const twice = (isWide: readonly boolean[]) => [
    { names: ["exp_avg", "exp_avg_sq"], isWide },
    { names: ["momentum1", "momentum2"], isWide },
  ];
  const once = (names: readonly string[], isWide: boolean) =>
    names.map((name) => ({ names: [name], isWide: [isWide] }));
  switch (kind) {
    case "adagrad":
      return once(["sum", "momentum1"], true);
    case "rowWiseAdagrad":
      return once(["momentum", "momentum1"], false);
    case "adam":
    case "lamb":
      return twice([true, true]);
    case "partialRowWiseAdam":
    case "partialRowWiseLamb":
      return twice([true, false]);
    case "ftrl":
    case "sgd":
      return [];
    default:
      return kind satisfies never;
  }
}

function denseFormsOf({ dense }: JobSpec["optimizer"]): readonly Form[] {
  switch (dense.kind) {
    case "sgd":
      return dense.momentum === 0 ? [] : [{ names: ["momentum_buffer"], isWide: [true] }];
    case "adagrad":
      return [{ names: ["sum"], isWide: [true] }];
    case "adam":
    case "lamb":
      return [{ names: ["exp_avg", "exp_avg_sq"], isWide: [true, true] }];
    default:
      return dense satisfies never;
  }
}

/** Optimizers whose steps are a part of the arithmetic. */
const counting = new Set(["adam", "lamb", "partialRowWiseAdam", "partialRowWiseLamb"]);

/**
 * The state that `job` takes of a file. `stateOf`: that of a tensor of the file, by its name there;
 * or why there is none.
 */
export function takeState(
  { optimizer }: JobSpec,
  wanted: readonly ForeignTensor[],
  stateOf: ((name: string) => ParameterState | undefined) | string,
): TakenState {
  const states = new Map<string, readonly SourceTensor[]>();
  const steps = new Set<number>();
  const take = (kind: string, forms: readonly Form[], tensors: readonly ForeignTensor[]) => {
    if (forms.length === 0 && kind !== "ftrl") return none;
    if (typeof stateOf === "string") return fresh(stateOf);
    const own = tensors.map((tensor) => ({ tensor, state: stateOf(tensor.name) }));
    const form = forms.find((one) => own.every(({ tensor, state }) => fits(one, tensor, state)));
    if (form === undefined) return fresh(`the file has no state of \`${kind}\` for each of them`);
    const counted = new Set(own.map(({ state }) => state?.step));
    const [step] = counted;
    const isCounted = counted.size === 1 && step !== undefined;
    const agrees = isCounted && (steps.size === 0 || steps.has(step));
    if (counting.has(kind) && !agrees) {
      return fresh(`\`${kind}\` goes by its steps, which the file does not count alike for all`);
    }
    if (isCounted) steps.add(step);
    for (const { tensor, state } of own) {
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
  // Those that count steps first: they decide which step it is.
  const ofRows = () => take(sparse.kind, formsOf(sparse.kind), wanted.filter(isTable));
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

/** Whether a parameter has the state of a form, in its shape, and no other. */
function fits(form: Form, { shape }: ForeignTensor, state: ParameterState | undefined): boolean {
  if (state?.tensors.size !== form.names.length) return false;
  return form.names.every((name, i) => {
    const { shape: found, type = "" } = state.tensors.get(name) ?? {};
    if (found === undefined || !isFloat(type)) return false;
    if (form.isWide[i] === true) return `${found}` === `${shape}`;
    return found[0] === shape[0] && found.slice(1).every((extent) => extent === 1);
  });
}

/** The optimizers that the state of a file is of; undefined: it cannot be told. */
export function optimizersOf(
  wanted: readonly ForeignTensor[],
  stateOf: (name: string) => ParameterState | undefined,
) {
  const has = (forms: readonly Form[], isTable: boolean) => {
    const own = wanted.filter((tensor) => "table" in tensor.own === isTable);
    return forms.some((form) => own.every((one) => fits(form, one, stateOf(one.name))));
  };
  const rows = (["rowWiseAdagrad", "adagrad", "partialRowWiseAdam", "adam"] as const).find((kind) =>
    has(formsOf(kind), true),
  );
  const dense = has([{ names: ["sum"], isWide: [true] }], false)
    ? ("adagrad" as const)
    : has([{ names: ["exp_avg", "exp_avg_sq"], isWide: [true, true] }], false)
      ? ("adam" as const)
      : undefined;
  return { dense, sparse: rows };
}

/** The state of a tensor of a file, from the record of an optimizer. */
export function stateIn(
  record: OptimizerRecord,
  names: ReadonlyMap<string, string>,
  plainOf: (name: string) => string,
): (name: string) => ParameterState | undefined {
  const byName = new Map<string, ParameterState>();
  // Numbered parameters are numbered in the order of the state dict.
  const ordered = [...names.keys()];
  for (const [key, state] of record) {
    const name = typeof key === "number" ? ordered[key] : plainOf(key);
    if (name !== undefined) byName.set(name, state);
  }
  return (name) => byName.get(name);
}
