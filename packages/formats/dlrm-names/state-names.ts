// The optimizer state of a parameter in other programs: torch.optim and facebookresearch/dlrm's
// RWSAdagrad use one set of names; TorchRec's fused table optimizers, which are FBGEMM's, use
// another.

import type { JobSpec, SparseOptimizerSpec } from "../../../internal.ts";
import type { ForeignKind } from "./foreign-tensors.ts";

/** The state tensors of a parameter. */
export interface StateForm {
  /** Their names, in the order of the floats of Osiris's row state, or of its optimizer slots. */
  readonly names: readonly string[];
  /** Whether each has the parameter's shape; false: one number per row. */
  readonly isWide: readonly boolean[];
}

/** The state of a table's rows; undefined: the program has no such optimizer. */
export function rowStateForm(
  program: ForeignKind,
  kind: SparseOptimizerSpec["kind"],
): StateForm | undefined {
  const isFused = program === "torchrec";
  const moments = isFused ? ["momentum1", "momentum2"] : ["exp_avg", "exp_avg_sq"];
  switch (kind) {
    case "sgd":
      return { names: [], isWide: [] };
    case "adagrad":
      return { names: [isFused ? "momentum1" : "sum"], isWide: [true] };
    case "rowWiseAdagrad":
      return { names: [isFused ? "momentum1" : "momentum"], isWide: [false] };
    case "adam":
    case "lamb":
      return { names: moments, isWide: [true, true] };
    case "partialRowWiseAdam":
    case "partialRowWiseLamb":
      return { names: moments, isWide: [true, false] };
    case "ftrl":
      return undefined;
    default:
      return kind satisfies never;
  }
}

/** The state of a dense parameter. SGD has the state of its momentum, and none without momentum. */
export function denseStateForm(kind: JobSpec["optimizer"]["dense"]["kind"]): StateForm {
  if (kind === "sgd") return { names: ["momentum_buffer"], isWide: [true] };
  if (kind === "adagrad") return { names: ["sum"], isWide: [true] };
  return { names: ["exp_avg", "exp_avg_sq"], isWide: [true, true] };
}
