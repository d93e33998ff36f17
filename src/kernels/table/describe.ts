// Parses the rows of the kernel table (table.ts). A row is text: `takes` lists the kernel's
// parameters in the order of the contract, `native` lists the arguments of the addon's function in
// its order. Each row is compiled once to closures that check the arguments of a call and build the
// list of arguments for the addon. A parameter is written as its name, usually with a shape:
//
//   w=(O,I)    a tensor with these dimensions
//   x=B:W      a tensor of B rows of W columns: the first dimension is B, B*W elements
//   x=2*B*O    a tensor with this number of elements, in any dimensions
//   ids=#B     a typed array of B elements
//   x=B*O?     optional: undefined, or a tensor of this shape
//   dW=[O*I]   a list of tensors, one for each finished subtree of the parameter `slices`
//   plus={n}   an optional list of tensors of this shape; 16{n}: of at most 16 tensors
//   rows       not a tensor: its check is the kind of the same name in kinds.ts, if there is one
//   slices(B)  the same, and the kind's check receives the size B; to=packed(B*W): kind `packed`
//   columns.mean=C   a member of the parameter `columns`
//
// A kernel that takes slices is not called where a device has none: it has no sum to write.
// In a call, the first parameter with a size (B, W, …) sets the value of the size, and all others
// are compared with this value. Parameters are processed in this order: kinds, exact dimensions,
// numbers of elements that are a single size, rows, all other tensors.

import { fail } from "node:assert/strict";
import { finishedSubtrees, type Slices } from "../contract/slices.ts";
import type { Tensor } from "../contract/tensor.ts";
import { valuesOf } from "../reference/memory.ts";
import { size } from "./asserts.ts";

/** The arguments of a call, in the contract's order. */
export type Arguments = readonly unknown[];

/** Throws an AssertionError where an argument is wrong. */
type Check = (given: Arguments) => void;

/** A kernel of the table. `Given`: the parameters of its contract. */
export interface Row<Given extends Arguments = never> {
  readonly takes: string;
  /**
   * The addon's arguments: parameters, members and sizes; "-" is undefined. Left out: native.ts
   * calls the addon, or the kernel is the same in both implementations.
   */
  readonly native?: string;
  /** The addon's function for `precision: "bfloat16"`, with the same arguments. */
  readonly bfloat16?: string;
  /** A size: where it is 0, there is nothing to do, and the kernel is not called. */
  readonly unless?: string;
  /** Throws where arguments break a rule that shapes do not express. Called last. */
  readonly also?: (...given: Given) => void;
}

/** Access of a parameter's kind to its row. */
export interface Context {
  /** The names of the parameter and its kernel, for messages. */
  readonly label: string;
  /** The text in brackets: a product of sizes. */
  readonly text: string;
  /** The value of a product of sizes, such as 2*B*O, in a call. */
  sizeOf(product: string): () => number;
  /** The argument of another parameter in a call. */
  argumentOf(parameter: string): (given: Arguments) => unknown;
}

/** A parameter that is no tensor, in one row. */
export interface Part<Value> {
  /** Sizes that the argument gives a value, before all tensors. */
  readonly binds?: Readonly<Record<string, (value: Value, given: Arguments) => number>>;
  /** Throws where the argument is wrong. Called when all sizes have values. */
  readonly check?: (value: Value, given: Arguments) => void;
  /** The addon's arguments. Left out: one, the value. `count`: their number. */
  readonly native?: { readonly count: number; push(list: unknown[], value: Value): void };
}

/** A kind of parameters that are no tensors. */
export type Kind = (context: Context) => Part<never>;

/** A compiled row. Its memory for sizes is shared by all calls, as a call is synchronous. */
export interface Compiled {
  /** Returns false where there is nothing to do. @throws AssertionError naming a wrong argument */
  check(given: Arguments): boolean;
  /** The addon's arguments of the call that was checked last. */
  list(given: Arguments): unknown[];
  /** Number of the addon's arguments. */
  readonly count: number;
}

/** A parameter of a row, or a member of one. `kind`: the name of its kind; a tensor has none. */
interface Parameter {
  readonly name: string;
  readonly label: string;
  readonly kind: string | undefined;
  readonly text: string;
  readonly of: (given: Arguments) => unknown;
}

/** Compiles the row of a kernel. @throws Error where no argument gives one of its sizes a value */
export function compile(kernel: string, row: Row, kinds: Readonly<Record<string, Kind>>): Compiled {
  const parameters = parametersOf(kernel, row.takes);
  const argumentOf = (name: string) => parameters.find((one) => one.name === name)?.of ?? nothing;
  const sizes = new Sizes();
  const sizeOf = (product: string) => sizes.product(product);
  const parts = new Map<Parameter, Part<unknown>>();
  const tensors: Parameter[] = [];
  for (const parameter of parameters) {
    const { label, kind, text } = parameter;
    if (kind === undefined) {
      tensors.push(parameter);
    } else {
      const partOf = kinds[kind] ?? anything;
      parts.set(parameter, partOf({ label, text, sizeOf, argumentOf }) as Part<unknown>);
    }
  }
  const steps: Check[] = [];
  const last: Check[] = [];
  for (const [{ of }, { binds = {}, check }] of parts) {
    for (const [name, bind] of Object.entries(binds)) {
      const set = sizes.setter(name);
      steps.push((given) => set(bind(of(given), given)));
    }
    if (check !== undefined) last.push((given) => check(of(given), given));
  }
  tensors.sort((one, other) => rankOf(one.text) - rankOf(other.text));
  const slicesOf = argumentOf("slices");
  const isSliced = parameters.some(({ kind, text }) => kind === "slices" && text !== "");
  for (const tensor of tensors) steps.push(checkOf(tensor, sizes, slicesOf));
  const natives = (row.native?.split(" ") ?? []).map((name) =>
    nativeOf(name, parameters, parts, sizes),
  );
  const unless = row.unless === undefined ? undefined : sizes.product(row.unless);
  const also = row.also as ((...given: Arguments) => void) | undefined;
  sizes.assertBound(kernel);
  return {
    check(given) {
      sizes.forget();
      for (let i = 0; i < steps.length; i++) steps[i]!(given);
      if (unless !== undefined && unless() === 0) return false;
      if (isSliced && (slicesOf(given) as Slices).bounds.length === 1) return false;
      for (let i = 0; i < last.length; i++) last[i]!(given);
      if (also !== undefined) also(...given);
      return true;
    },
    list(given) {
      const into: unknown[] = [];
      for (let i = 0; i < natives.length; i++) natives[i]!.push(into, given);
      return into;
    },
    count: natives.reduce((sum, { count }) => sum + count, 0),
  };
}

const nothing = (): undefined => undefined;
const anything: Kind = () => ({});

/** The parameters of a row; members take the place of an object. */
function parametersOf(kernel: string, takes: string): Parameter[] {
  const roots: string[] = [];
  return takes.split(" ").map((token) => {
    const [path = "", shape] = token.split("=");
    // Either name, name(text) or name=kind(text), or else name=shape.
    const [, kind, text = ""] = /^([a-z]\w*)(?:\((.*)\))?$/.exec(shape ?? path) ?? [];
    const isKind = kind !== undefined && (shape === undefined || shape.includes("("));
    const [root = "", member] = (shape === undefined && isKind ? kind : path).split(".");
    if (!roots.includes(root)) roots.push(root);
    const i = roots.indexOf(root);
    const of = (given: Arguments) =>
      member === undefined ? given[i] : (given[i] as Readonly<Record<string, unknown>>)[member];
    return {
      name: member ?? root,
      label: `${member === undefined ? root : path} of ${kernel}`,
      kind: isKind ? kind : undefined,
      text: isKind ? text : (shape ?? ""),
      of,
    };
  });
}

/** Arguments of the addon that follow from one name of a row. */
interface Native {
  readonly count: number;
  push(into: unknown[], given: Arguments): void;
}

function nativeOf(
  name: string,
  parameters: readonly Parameter[],
  parts: ReadonlyMap<Parameter, Part<unknown>>,
  sizes: Sizes,
): Native {
  const one = (of: (given: Arguments) => unknown): Native => {
    return { count: 1, push: (into, given) => void into.push(of(given)) };
  };
  if (name === "-") return one(nothing);
  const parameter = parameters.find((own) => own.name === name);
  if (parameter === undefined) return one(sizes.product(name));
  const { text, of } = parameter;
  const part = parts.get(parameter);
  if (part?.native !== undefined) {
    const { count, push } = part.native;
    return { count, push: (into, given) => push(into, of(given)) };
  }
  if (part !== undefined || text.startsWith("#")) return one(of);
  if (/[[{]/.test(text)) {
    return one((given) => ((of(given) ?? []) as readonly Tensor[]).map(valuesOf));
  }
  return one((given) => {
    const t = of(given) as Tensor | undefined;
    return t === undefined ? undefined : valuesOf(t);
  });
}

/** The sizes of a row, and their values in the current call; -1: none yet. */
class Sizes {
  readonly #names: string[] = [];
  readonly #values: number[] = [];
  readonly #bound = new Set<string>();

  forget(): void {
    for (let i = 0; i < this.#values.length; i++) this.#values[i] = -1;
  }

  #numberOf(name: string): number {
    if (!this.#names.includes(name)) this.#values[this.#names.push(name) - 1] = -1;
    return this.#names.indexOf(name);
  }

  /** Sets a size. */
  setter(name: string): (value: number) => void {
    this.#bound.add(name);
    const number = this.#numberOf(name);
    return (value) => {
      this.#values[number] = value;
    };
  }

  /** Returns whether a size has this value; a size without a value gets it. */
  agreement(name: string): (value: number) => boolean {
    this.#bound.add(name);
    const number = this.#numberOf(name);
    return (value) => {
      if (this.#values[number] === -1) this.#values[number] = value;
      return this.#values[number] === value;
    };
  }

  /** The value of a product of sizes with at most one number in front. */
  product(text: string): () => number {
    const { factor, numbers } = this.#factorsOf(text);
    return () => {
      let product = factor;
      for (let i = 0; i < numbers.length; i++) product *= this.#values[numbers[i]!]!;
      return product;
    };
  }

  /**
   * Returns whether a product of sizes has this value. One size without a value gets it; `canBind`:
   * whether the value is in every call.
   */
  quotient(text: string, canBind: boolean): (value: number) => boolean {
    const { factor, numbers } = this.#factorsOf(text);
    const free = numbers
      .map((number) => this.#names[number]!)
      .filter((name) => !this.#bound.has(name));
    if (free.length > (canBind ? 1 : 0)) throw new Error(`No argument gives ${free} a value`);
    for (const name of free) this.#bound.add(name);
    return (value) => {
      let product = factor;
      let unknown = -1;
      for (let i = 0; i < numbers.length; i++) {
        const known = this.#values[numbers[i]!]!;
        if (known === -1) unknown = numbers[i]!;
        else product *= known;
      }
      if (unknown === -1) return product === value;
      const quotient = product === 0 ? 0 : value / product;
      this.#values[unknown] = quotient;
      return Number.isInteger(quotient) && quotient * product === value;
    };
  }

  #factorsOf(text: string): { factor: number; numbers: readonly number[] } {
    const factors = text.split("*");
    const factor = Number(factors[0]);
    if (Number.isNaN(factor))
      return { factor: 1, numbers: factors.map((one) => this.#numberOf(one)) };
    return { factor, numbers: factors.slice(1).map((one) => this.#numberOf(one)) };
  }

  /** A shape with the values of its sizes, for messages. */
  worded(text: string): string {
    const known = text.replaceAll(/[A-Za-z]+/g, (name) => {
      const value = this.#values[this.#names.indexOf(name)] ?? -1;
      return value === -1 ? name : String(value);
    });
    return known === text ? text : `${text} = ${known}`;
  }

  assertBound(kernel: string): void {
    const free = this.#names.filter((name) => !this.#bound.has(name));
    if (free.length > 0) throw new Error(`No argument of ${kernel} gives ${free} a value`);
  }
}

/** How early a tensor is checked: those first that give sizes their values. */
function rankOf(text: string): number {
  if (/[?{]/.test(text)) return 5;
  if (text.includes("(")) return 0;
  if (text.startsWith("[")) return 4;
  return text.includes(":") ? 2 : text.includes("*") && !/^\d+\*\w+$/.test(text) ? 3 : 1;
}

/** The check of a parameter with a shape. */
function checkOf(
  { label, text, of }: Parameter,
  sizes: Sizes,
  slicesOf: (given: Arguments) => unknown,
): Check {
  const isOptional = text.endsWith("?");
  const [, most, list] = /^(\d*)\{(.*)\}$/.exec(text) ?? [];
  const [, each] = /^\[(.*)\]$/.exec(text) ?? [];
  const fits = fitOf(label, each ?? list ?? text.replace("?", ""), !/[?{]/.test(text), sizes);
  if (each === undefined && list === undefined) {
    return (given) => {
      const t = of(given) as Tensor | undefined;
      if (t !== undefined || !isOptional) fits(t!);
    };
  }
  const limit = most === undefined || most === "" ? Number.POSITIVE_INFINITY : Number(most);
  return (given) => {
    const all = of(given) as readonly Tensor[] | undefined;
    if (each !== undefined) assertEach(label, all!.length, slicesOf(given) as Slices);
    if (all === undefined) return;
    if (all.length > limit) fail(`Expected at most ${limit} of ${label}, got ${all.length}`);
    for (let i = 0; i < all.length; i++) fits(all[i]!);
  };
}

function assertEach(label: string, count: number, slices: Slices): void {
  const trees = finishedSubtrees(slices).length;
  if (count !== trees) fail(`Expected ${label} for ${trees} subtrees, got ${count}`);
}

/** The check of one tensor or typed array. `isAlways`: whether every call has it. */
function fitOf(label: string, text: string, isAlways: boolean, sizes: Sizes): (t: Tensor) => void {
  const refuse = (what: string, { shape }: Partial<Tensor>, count?: number) =>
    fail(`Expected ${label} ${what}, got ${shape === undefined ? count : `(${shape})`}`);
  if (text === ".") return nothing;
  if (text.startsWith("(")) {
    const agree = text
      .slice(1, -1)
      .split(",")
      .map((name) => sizes.agreement(name));
    return (t) => {
      let isFit = t.shape.length === agree.length;
      for (let i = 0; isFit && i < agree.length; i++) isFit = agree[i]!(t.shape[i]!);
      if (!isFit) refuse(`to be ${sizes.worded(text)}`, t);
    };
  }
  if (text.includes(":")) {
    const [rowsAgree, elementsAgree] = [
      sizes.agreement(text.slice(0, text.indexOf(":"))),
      sizes.quotient(text.replace(":", "*"), isAlways),
    ];
    return (t) => {
      if (rowsAgree(t.shape[0] ?? 0) && elementsAgree(size(t))) return;
      refuse(`to have rows:columns ${sizes.worded(text)}`, t);
    };
  }
  const isArray = text.startsWith("#");
  const product = isArray ? text.slice(1) : text;
  const agree = sizes.quotient(product, isAlways);
  return (t) => {
    // A parameter `#B` is a typed array, although this check has the type of checks of tensors.
    const count = isArray ? (t as Tensor & ArrayLike<number>).length : size(t);
    if (!agree(count)) refuse(`to hold ${sizes.worded(product)} elements`, t, count);
  };
}
