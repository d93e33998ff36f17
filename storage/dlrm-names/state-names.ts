// What other programs call the state of an optimizer, of one parameter: torch.optim, and
// facebookresearch/dlrm's RWSAdagrad, with their names; TorchRec's fused optimizers of the tables,
// which are FBGEMM's, with others.

import type { ForeignKind } from "./counterpart.ts";

/**
 * Names of the state of a table's rows, in the order of the floats here; undefined: the program has
 * no such optimizer.
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

/** Names of the state of a dense parameter, in the order of the slots here. */
export function denseStateNames(kind: "sgd" | "adagrad" | "adam" | "lamb"): readonly string[] {
  if (kind === "sgd") return ["momentum_buffer"]; // Of SGD with momentum; without one: no slot.
  return kind === "adagrad" ? ["sum"] : ["exp_avg", "exp_avg_sq"];
}
