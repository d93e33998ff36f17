// Makes kernels with checked arguments from the table, over functions in TypeScript or the addon's.

import type { Addon } from "../../ports/addon.ts";
import type { Kernels } from "../contract/kernels.ts";
import { type Arguments, type Compiled, compile, type Row } from "./describe.ts";
import { kinds } from "./kinds.ts";
import { checkMemory } from "./memory.ts";
import { type Call, createRecorder, type Recorder } from "./recording.ts";
import { table } from "./table.ts";

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
 * Kernels with checked arguments: those of the addon for table rows with `native`; for all other
 * rows, and for all rows without an addon, those of `inner`.
 */
export function bindKernels(inner: Partial<Kernels>, addon: Addon | undefined): Kernels {
  // Kernels are called by name here, with arguments that the table checks instead of the compiler.
  const calls = inner as unknown as Calls;
  const recorder = createRecorder(addon);
  const bound: Record<string, unknown> = {};
  for (const [name, of] of Object.entries({ ...inner, ...checkMemory(inner as Kernels) })) {
    const isNoted = typeof of === "function" && !handles.has(name);
    bound[name] = isNoted ? (...given: Arguments) => recorder.note(of as Call, given) : of;
  }
  for (const [kernel, { row, of }] of compiledRows()) {
    const isNative = addon !== undefined && row.native !== undefined;
    bound[kernel] = isNative
      ? nativeCall(row, of, recorder, addon[kernel]!, addon[row.bfloat16 ?? kernel]!)
      : checkedCall(of, recorder, calls[kernel]!);
  }
  bound.recorded = recorder.recorded;
  // The table has a row for each kernel of the contract that `inner` lacks: a test compares them.
  return bound as unknown as Kernels;
}

/** Kernels that only make handles of memory. A recording has the handles in its arguments. */
const handles: ReadonlySet<string> = new Set([
  "view",
  "part",
  "reshape",
] satisfies (keyof Kernels)[]);

function checkedCall({ check }: Compiled, { note }: Recorder, call: Call): Call {
  return (...given) => (check(given) ? note(call, given) : undefined);
}

/** `short`: the addon's function for bfloat16, which may be the same. */
function nativeCall(
  { takes }: Row,
  { check, list }: Compiled,
  { note }: Recorder,
  call: Call,
  short: Call,
): Call {
  const precision = call === short ? 0 : takes.split(" ").indexOf("precision");
  return (...given) => {
    if (!check(given)) return undefined;
    return note(given[precision] === "bfloat16" ? short : call, list(given));
  };
}
