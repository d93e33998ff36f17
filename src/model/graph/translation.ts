// Translation of blocks to ONNX (opset 18), whose operators many runtimes share: the forward pass
// outside of training. A block defines its translation beside its own forward pass;
// packages/formats/exports assembles the translations of all blocks into a file.
//
// B = samples.

/** The name of a value in the ONNX graph. */
export type Name = string;

/** An attribute of an operator: an integer, integers, a string, or a float32. */
export type Attribute = number | readonly number[] | string | { readonly float: number };

/** The ONNX graph under construction, as a block sees it. */
export interface Translation {
  /** Input i, (B, …), in the shape in which the block took it. */
  x(input: number): Name;
  /** A parameter of the block, by its name. */
  parameter(name: string): Name;
  /** A constant tensor of float32. */
  numbers(shape: readonly number[], values: readonly number[]): Name;
  /** A constant tensor of integers: (n), or of the given `shape`. */
  integers(values: readonly number[], shape?: readonly number[]): Name;
  /** The number of samples B, as a tensor (1). */
  samples(): Name;
  /**
   * (B) integers: ids per sample of an unpooled feature, at most its positions. `lookup`: its
   * first.
   */
  idsOf(lookup: number): Name;
  /** Vectors of lookups in the block's output, each (B, columns), with their first column. */
  readonly lookups: readonly { readonly name: Name; readonly column: number }[];
  /** Adds an operator and returns its output. */
  op(type: string, inputs: readonly Name[], attributes?: Readonly<Record<string, Attribute>>): Name;
}

/** Adds a block's operators and returns the block's output, (B, …). */
export type Translate = (to: Translation) => Name;

/** The part of a translation that the helpers below use. */
type Ops = Pick<Translation, "op" | "integers">;

/** The columns first .. first+count-1 of the last axis of x. */
export function slicedColumns(to: Ops, x: Name, first: number, count: number): Name {
  const [from, end] = [to.integers([first]), to.integers([first + count])];
  return to.op("Slice", [x, from, end, to.integers([-1])]);
}

/** x with a new axis of size 1 at `axis`. */
export function withAxis(to: Ops, x: Name, axis: number): Name {
  return to.op("Unsqueeze", [x, to.integers([axis])]);
}

/** The sum over an axis; the axis is removed. */
export function summed(to: Ops, x: Name, axis: number): Name {
  return to.op("ReduceSum", [x, to.integers([axis])], { keepdims: 0 });
}
