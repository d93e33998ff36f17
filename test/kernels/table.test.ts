import test from "ava";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { createNative } from "../../src/kernels/native/native.ts";
import { compiledRows } from "../../src/kernels/table/bind.ts";
import { compile, type Row } from "../../src/kernels/table/describe.ts";
import { kinds } from "../../src/kernels/table/kinds.ts";
import { type Addon, loadAddon } from "../../src/ports/addon.ts";
import { nativeKernels, testIf } from "../helpers/needs.ts";
import { listTree, textOf } from "../helpers/tree.ts";
import { smallTable } from "./cases.ts";

/** The kernels of native/table.h by name; `isAdapted`: a binding stands before the kernel. */
const rows = listTree()
  .filter((path) => /^native\/\w+\/([\w-]+-)?table\.h$/.test(path))
  .flatMap((path) => [...textOf(path).matchAll(/^(?:KERNEL|ADAPTED)\(\w+, (\w+),/gm)])
  .map(([, name = ""]) => name);

testIf(nativeKernels)("the table of kernels has the addon's functions and argument counts", (t) => {
  const counts = loadAddon()?.argumentCounts?.() as Readonly<Record<string, number>>;
  const calls = new Set<string>();
  for (const [kernel, { row, of }] of compiledRows()) {
    if (row.native === undefined) continue;
    for (const name of [kernel, row.bfloat16]) {
      if (name === undefined) continue;
      t.is(counts[name], of.count, name);
      calls.add(name);
    }
  }
  t.true(rows.length > 50);
  const byHand = textOf("src/kernels/native/native.ts");
  for (const name of rows) {
    t.true(name in counts, `${name} of native/table.h is in the addon`);
    t.true(calls.has(name) || byHand.includes(`addon.${name}!(`), `${name} is called`);
  }
});

testIf(nativeKernels)("a function of the addon refuses a wrong number of arguments", (t) => {
  const t4 = new Float32Array(4);
  const message = "Expected 3 arguments, got 2";
  t.throws(() => loadAddon()?.dRelu?.(t4, t4), { instanceOf: TypeError, message });
});

testIf(nativeKernels)("a function of the addon refuses undefined for an array", (t) => {
  const { dRelu, addBeside, dLayerNorm }: Partial<Addon> = loadAddon() ?? {};
  const one = new Float32Array(1);
  const message = "Expected the typed arrays that this kernel takes";
  t.throws(() => dRelu?.(undefined, one, 1), { instanceOf: TypeError, message });
  t.throws(() => dRelu?.(one, undefined, 1), { instanceOf: TypeError, message });
  t.throws(() => addBeside?.(one, [undefined], one, 1), { instanceOf: TypeError, message });
  t.throws(() => addBeside?.(one, undefined, one, 1), { instanceOf: TypeError, message });
  // Without an array for its gradient, the kernel does not compute it.
  const [gain, bias] = [new Float32Array(1), new Float32Array(1)];
  const [saved, dOut] = [new Float32Array(2), Float32Array.of(3)];
  const slices = [0, Int32Array.of(0, 1), 1];
  dLayerNorm?.(undefined, [gain], [bias], dOut, saved, one, one, 1, ...slices);
  t.deepEqual(bias, dOut);
});

/** The check of a kernel with this row, as a function of its arguments. */
function checkOf(row: Row) {
  const { check } = compile("mix", row, kinds);
  return (...given: readonly unknown[]) => check(given);
}

const tensor = (...shape: number[]) => ({
  shape,
  data: new Float32Array(shape.reduce((product, extent) => product * extent, 1)),
});

test("a size has its value from exact dimensions first, then from elements and rows", (t) => {
  const check = checkOf({ takes: "out=B*O x=B:I w=(O,I)" });
  t.true(check(tensor(2, 4), tensor(2, 3), tensor(4, 3)));
  t.true(check(tensor(8), tensor(2, 3), tensor(4, 3)));
  t.throws(() => check(tensor(2, 4), tensor(2, 5), tensor(4, 3)), {
    message: "Expected x of mix to have rows:columns B:I = 2:3, got (2,5)",
  });
  t.throws(() => check(tensor(2, 3), tensor(2, 3), tensor(4, 3)), {
    message: "Expected out of mix to hold B*O = 2*4 elements, got (2,3)",
  });
  t.throws(() => check(tensor(2, 4), tensor(2, 3), tensor(12)), {
    message: "Expected w of mix to be (O,I), got (12)",
  });
});

test("a size that is a factor of a number of elements divides it", (t) => {
  const check = checkOf({ takes: "x=R*D saved=2*R gain=D" });
  t.true(check(tensor(3, 4), tensor(6), tensor(4)));
  t.true(check(tensor(0, 4), tensor(0), tensor(4)));
  t.throws(() => check(tensor(3, 4), tensor(5), tensor(4)), {
    message: "Expected saved of mix to hold 2*R = 2*2.5 elements, got (5)",
  });
});

test("a size that no argument determines is refused when its row is compiled", (t) => {
  t.throws(() => checkOf({ takes: "x=B*I" }), {
    message: "No argument gives B,I a value",
  });
});

for (const choice of ["reference", "auto"] as const) {
  test(`repeated recorded calls compute from the present contents of memory: ${choice}`, (t) => {
    const k = openKernels(choice);
    const [x, out] = [k.tensor([2, 1]), k.tensor([2, 2])];
    const [w, b] = [k.tensor([2, 1]), k.tensor([2])];
    k.write(w, Float32Array.of(1, -1));
    k.write(x, Float32Array.of(1, 2));
    const repeat = k.recorded(() => {
      k.linear(k.reshape(out, [2, 2]), x, w, b, false);
      k.copyColumns(out, 1, x, 0, 1);
    });
    k.write(x, Float32Array.of(3, 4));
    t.deepEqual([...k.read(out)], [1, 1, 2, 2]);
    repeat?.();
    t.deepEqual([...k.read(out)], [3, 3, 4, 4]);
    t.is(
      k.recorded(() => void k.read(x)),
      undefined,
      "a result that the caller reads cannot be repeated",
    );
    t.throws(() => k.recorded(() => void k.recorded(() => {})), { message: /already runs/ });
    t.truthy(
      k.recorded(() => {}),
      "a recording can begin after a failed one",
    );
  });
}

testIf(nativeKernels)(
  "adjacent calls of the addon are repeated in one call, the same sums",
  (t) => {
    const loaded = loadAddon() as Addon;
    const called: string[] = [];
    const counting = Object.entries(loaded).map(([name, run]) => [
      name,
      (...given: unknown[]) => {
        called.push(name);
        return run(...given);
      },
    ]);
    const k = createNative(Object.fromEntries(counting) as Addon) as Kernels;
    const [x, y, out] = [k.tensor([2, 1]), k.tensor([2, 1]), k.tensor([2, 2])];
    const { rows, bags } = smallTable(k, "sum", 1);
    const ids = BigInt64Array.of(3n, 1n, 1n, 2n, 0n);
    const pooled = [1, 2].map(() => k.tensor([3, 2]));
    const repeats = [
      k.recorded(() => {
        k.copyColumns(out, 1, x, 0, 1);
        k.copy(y, x); // Runs in JavaScript.
        k.copyColumns(out, 0, y, 0, 1);
        k.add(x, x, y);
        k.copyColumns(out, 1, x, 0, 1);
      }),
      k.recorded(() => {
        for (const one of pooled) k.pool(one, [rows], { ...bags, ids }, 0, 3);
      }),
    ];
    k.write(x, Float32Array.of(3, 4));
    ids.fill(0n);
    called.length = 0;
    for (const repeat of repeats) repeat?.();
    t.deepEqual(called, ["copyColumns", "runCalls", "pool", "pool"]);
    t.deepEqual([...k.read(out)], [3, 6, 4, 8]);
    const expected = k.tensor([3, 2]);
    k.pool(expected, [rows], { ...bags, ids: new Int32Array(5) }, 0, 3);
    for (const one of pooled) t.deepEqual(k.read(one), k.read(expected), "ids are read anew");
    t.throws(() => loaded.runCalls?.({}, []), { message: /calls that `keepCalls` has kept/ });
  },
);
