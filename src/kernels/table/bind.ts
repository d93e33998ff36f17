// Makes kernels with checked arguments from the table, over functions in TypeScript or the addon's.

import type { Addon } from "../../ports/addon.ts";
import type { Kernels } from "../contract/kernels.ts";
import { type Arguments, type Compiled, compile, type Row } from "./describe.ts";
import { kinds } from "./kinds.ts";
import { checkMemory } from "./memory.ts";
import { table } from "./table.ts";

type Call = (...given: Arguments) => unknown;
type Calls = Readonly<Record<string, Call>>;

/** The rows of the table, compiled when the first kernels of this thread are made. */
let compiled: ReadonlyMap<string, { readonly row: Row; readonly of: Compiled }> | undefined;

/** The rows of the table by kernel. */
export function compiledRows(): NonNullable<typeof compiled> {
  compiled ??= new Map(
    Object.entries<Row>(table).map(([kernel, row]) => [
      kernel,
      { row, of: compile(kernel, row, kinds) },
    ]),
  );
  return compiled;
}

/** The kernels `inner`, with checked arguments. Ids are checked where frames are received. */
export function checkKernels(inner: Kernels): Kernels {
  return bindKernels(inner, undefined);
}

/**
 * Kernels with checked arguments: of rows with `native`, those of the addon; all others, and all
 * kernels where there is no addon, are `inner`'s.
 */
export function bindKernels(inner: Partial<Kernels>, addon: Addon | undefined): Kernels {
  // Kernels are called by name here, with arguments that the table checks instead of the compiler.
  const calls = inner as unknown as Calls;
  const bound: Record<string, unknown> = { ...inner, ...checkMemory(inner as Kernels) };
  for (const [kernel, { row, of }] of compiledRows()) {
    const isNative = addon !== undefined && row.native !== undefined;
    bound[kernel] = isNative ? nativeCall(kernel, row, of, addon) : checkedCall(of, calls[kernel]!);
  }
  // The table has a row for each kernel of the contract that `inner` lacks: a test compares them.
  return bound as unknown as Kernels;
}

function checkedCall({ check }: Compiled, call: Call): Call {
  return (...given) => (check(given) ? call(...given) : undefined);
}

function nativeCall(kernel: string, row: Row, { check, list }: Compiled, addon: Addon): Call {
  const call = addon[kernel]!;
  if (row.bfloat16 === undefined) {
    return (...given) => (check(given) ? call(...list(given)) : undefined);
  }
  const short = addon[row.bfloat16]!;
  const precision = row.takes.split(" ").indexOf("precision");
  return (...given) => {
    if (check(given)) (given[precision] === "bfloat16" ? short : call)(...list(given));
  };
}
