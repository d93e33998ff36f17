// What a block says of itself to other programs: its forward pass outside of training, in operators
// of ONNX (opset 18), the set that runtimes share. A block writes it beside its own forward pass;
// packages/formats/exports makes a file of all blocks.
//
// B = samples.

/** The name of a value in the other program. */
export type Name = string;

/** An attribute of an operator: integers, one of them, a text, or one float32. */
export type Attribute = number | readonly number[] | string | { readonly float: number };

/** What a block is translated with. */
export interface Translation {
  /** (B, …): input i, in the shape in which the block took it. */
  x(input: number): Name;
  /** A parameter of the block, by its name. */
  parameter(name: string): Name;
  /** A constant tensor of float32. */
  numbers(shape: readonly number[], values: readonly number[]): Name;
  /** A constant tensor (n) of integers; a `shape` of its own, where it is given. */
  integers(values: readonly number[], shape?: readonly number[]): Name;
  /** (1): B. */
  samples(): Name;
  /** (B) integers: the ids of an unpooled feature that have a position; `lookup`: its first. */
  idsOf(lookup: number): Name;
  /** Vectors of lookups that are placed in the block's output, each (B, columns). */
  readonly lookups: readonly { readonly name: Name; readonly column: number }[];
  /** The output of an operator. */
  op(type: string, inputs: readonly Name[], attributes?: Readonly<Record<string, Attribute>>): Name;
}

/** The output of a block, (B, …). */
export type Translate = (to: Translation) => Name;

/** What the helpers here need of a translation. */
type Ops = Pick<Translation, "op" | "integers">;

/** The columns first .. first+count-1 of the last axis of x. */
export function slicedColumns(to: Ops, x: Name, first: number, count: number): Name {
  const [from, end] = [to.integers([first]), to.integers([first + count])];
  return to.op("Slice", [x, from, end, to.integers([-1])]);
}

/** x with one more axis. */
export function withAxis(to: Ops, x: Name, axis: number): Name {
  return to.op("Unsqueeze", [x, to.integers([axis])]);
}

/** The sum over an axis, which goes away. */
export function summed(to: Ops, x: Name, axis: number): Name {
  return to.op("ReduceSum", [x, to.integers([axis])], { keepdims: 0 });
}
