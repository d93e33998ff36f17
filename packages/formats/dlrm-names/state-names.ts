// Names of a parameter's optimizer state in other programs: torch.optim and facebookresearch/dlrm's
// RWSAdagrad use one set of names; TorchRec's fused table optimizers, which are FBGEMM's, use
// another.

import type { ForeignKind } from "./counterpart.ts";

/**
 * Names of the state of a table's rows, in the order of the floats of Osiris's row state;
 * undefined: the program has no such optimizer.
 */
export function rowStateNames(program: ForeignKind, kind: string): readonly string[] | undefined {
  const isFused = program === "torchrec";
  switch (kind) {
    case "sgd":
      return [];
    case "adagrad":
      return [isFused ? "momentum1" : "sum"];
    case "rowWiseAdagrad":
      return [isFused ? "momentum1" : "momentum"];
    case "adam":
    case "lamb":
    case "partialRowWiseAdam":
    case "partialRowWiseLamb":
      return isFused ? ["momentum1", "momentum2"] : ["exp_avg", "exp_avg_sq"];
    default:
      return undefined;
  }
}

/** Names of the state of a dense parameter, in the order of Osiris's optimizer slots. */
export function denseStateNames(kind: "sgd" | "adagrad" | "adam" | "lamb"): readonly string[] {
  if (kind === "sgd") return ["momentum_buffer"]; // Unused by plain SGD, which has no slot.
  return kind === "adagrad" ? ["sum"] : ["exp_avg", "exp_avg_sq"];
}
