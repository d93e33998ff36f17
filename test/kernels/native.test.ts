import { once } from "node:events";
import { Worker } from "node:worker_threads";
import test, { type ExecutionContext } from "ava";
import { InputUnusableError, InstructionSetError } from "../../src/errors/errors.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { slicesOf, subtreesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { buildNative } from "../../src/kernels/native/build-native.ts";
import {
  createNative,
  instructionSets,
  limitIsa,
  limitTo,
  resetIsa,
} from "../../src/kernels/native/native.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { ofThisVersion } from "../../src/ports/addon.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { instructionSet, leavesOut, nativeKernels, testIf } from "../helpers/needs.ts";
import { rounds } from "../helpers/thinned.ts";
import { blockScenarios } from "./blocks/block-cases.ts";
import { random } from "./cases.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import { kernelSuite } from "./suite.ts";

const count = rounds("seeds of random kernel inputs", 2, 25);
const seeds = Array.from({ length: count }, (_, seed) => seed + 1);

function startNative(t: ExecutionContext): Kernels | undefined {
  return leavesOut(t, nativeKernels) ? undefined : openKernels("native");
}

/** The largest distance, relative to values of 1 and more; NaN if only one value is NaN. */
function distance(actual: Float32Array, expected: Float32Array): number {
  if (actual.length !== expected.length) return Number.NaN;
  let worst = 0;
  actual.forEach((value, i) => {
    const other = expected[i] ?? Number.NaN;
    worst = Math.max(worst, Math.abs(value - other) / Math.max(1, Math.abs(other)));
  });
  return worst;
}

/**
 * The reference's results for a seed, cached, as the reference is slow and several tests use them.
 */
function expectedOf(name: string, scenario: Scenario, seed: number): Float32Array[] {
  const key = `${name}, ${seed}`;
  const found =
    references.get(key) ?? scenario(openKernels("reference"), new RandomStream(seed, 1));
  references.set(key, found);
  return found;
}

const references = new Map<string, Float32Array[]>();

/** Seeds of large outputs: fewer, as the reference takes a second for each. */
const largeSeeds = seeds.slice(0, rounds("seeds of large outputs", 1, count));
const seedsOf = (name: string) => (name === "large outputs" ? largeSeeds : seeds);

kernelSuite("native", startNative);

for (const [name, scenario] of Object.entries({ ...scenarios, ...blockScenarios })) {
  test(`native kernels agree with the reference within 1e-6: ${name}`, (t) => {
    const native = startNative(t);
    if (native === undefined) return;
    for (const seed of seedsOf(name)) {
      const actual = scenario(native, new RandomStream(seed, 1));
      const expected = expectedOf(name, scenario, seed);
      t.is(actual.length, expected.length);
      actual.forEach((values, i) => {
        const worst = distance(values, expected[i] ?? new Float32Array());
        t.true(worst <= 1e-6, `seed ${seed}, output ${i}: ${worst}`);
      });
    }
  });

  testIf(nativeKernels, instructionSet("avx512"), instructionSet("avx2")).serial(
    `AVX2 and AVX-512 give the same bits: ${name}`,
    (t) => {
      const native = startNative(t);
      if (native === undefined) return;
      for (const seed of seedsOf(name)) {
        t.true(limitIsa("avx512"));
        const wide = scenario(native, new RandomStream(seed, 1));
        t.true(limitIsa("avx2"));
        const narrow = scenario(native, new RandomStream(seed, 1));
        resetIsa();
        wide.forEach((values, i) => {
          t.true(sameBits(values, narrow[i]), `seed ${seed}, output ${i}`);
        });
      }
    },
  );

  testIf(nativeKernels, instructionSet("portable")).serial(
    `portable kernels agree with the reference within 1e-5: ${name}`,
    (t) => {
      limitIsa("portable");
      const portable = openKernels("native");
      t.regex(portable.arithmetic, /^native-3-portable/);
      for (const seed of seedsOf(name)) {
        const actual = scenario(portable, new RandomStream(seed, 1));
        const expected = expectedOf(name, scenario, seed);
        actual.forEach((values, i) => {
          const other = expected[i] ?? new Float32Array();
          const worst = distance(values, other);
          // Stochastic rounding may go the other way after a small error: the weight then differs
          // by one step, and so does its lag behind the average.
          const parted = values.filter((value, at) => Math.abs(value - (other[at] ?? 0)) > 1e-5);
          const isRounding = worst <= 2 ** -6 && parted.length <= 1 + values.length / 20_000;
          t.true(worst <= 1e-5 || isRounding, `seed ${seed}, output ${i}: ${worst}`);
        });
      }
      resetIsa();
    },
  );
}

function sameBits(a: Float32Array, b: Float32Array | undefined): boolean {
  if (b === undefined || a.length !== b.length) return false;
  const [left, right] = [new Uint8Array(a.buffer), new Uint8Array(b.buffer)];
  return Buffer.compare(left, right) === 0;
}

testIf(nativeKernels).serial(
  "of the sets in OSIRIS_SETS, the fastest available one is used",
  (t) => {
    const { set } = openKernels("native");
    const others = instructionSets.filter((isa) => isa !== set && limitIsa(isa));
    limitTo("all");
    limitTo(["sparc", ...others, set].join(" "));
    t.is(openKernels("native").set, set);
    for (const isa of others) {
      limitTo(`${isa} sparc`);
      t.is(openKernels("native").set, isa);
    }
    resetIsa();
    const message = new RegExp(`asks for .* \`sparc\`, but this processor runs ${set}`);
    t.throws(() => limitTo("sparc"), { instanceOf: InstructionSetError, message });
    t.is(openKernels("native").set, set);
  },
);

testIf(nativeKernels)("the notice of slow kernels obeys OSIRIS_SETS", async (t) => {
  const { href } = new URL("../../src/kernels/index.js", import.meta.url);
  const code = `import(${JSON.stringify(href)}).then(({ kernelNotice }) => kernelNotice())`;
  const env = { ...process.env, OSIRIS_SETS: "sparc" };
  const thread = new Worker(code, { eval: true, env });
  const [error] = (await once(thread, "error")) as [Error];
  t.regex(error.message, /^OSIRIS_SETS asks for the instruction set `sparc`/);
});

test("an addon that was built for another version is refused", (t) => {
  for (const addon of [{}, { callForm: () => 1 }]) {
    t.throws(() => ofThisVersion(addon, "build/osiris.node"), {
      instanceOf: InputUnusableError,
      message:
        "The native kernels in build/osiris.node were built for another version of Osiris: build " +
        "them again with `osiris build-native`, or remove the file",
    });
  }
});

testIf(nativeKernels)("an addon that cannot be tried is not called up to date", (t) => {
  const { execPath } = process;
  process.execPath = "/nowhere";
  t.deepEqual(buildNative(), { built: false, message: "spawnSync /nowhere ENOENT" });
  process.execPath = execPath;
});

test("pooled vectors and squares, which use no FMA, have the reference's bits", (t) => {
  const native = startNative(t);
  const update = scenarios["embedding updates"];
  if (native === undefined || update === undefined) return;
  for (const seed of seeds) {
    const actual = update(native, new RandomStream(seed, 1));
    const expected = expectedOf("embedding updates", update, seed);
    // Output 0: pooled vectors; odd outputs: squares of tables without l2.
    for (const output of [0, 1, 3, 5, 7]) {
      const values = actual[output] ?? new Float32Array();
      t.true(sameBits(values, expected[output]), `seed ${seed}, output ${output}`);
    }
  }
});

for (const isa of instructionSets) {
  testIf(nativeKernels, instructionSet(isa)).serial(
    `bfloat16 layers have the reference's bits, subnormal numbers included: ${isa}`,
    (t) => {
      const native = startNative(t);
      if (native === undefined) return;
      limitIsa(isa);
      for (const seed of [...seeds, ...seeds.map((seed) => -seed)]) {
        const actual = bfloat16Layer(native, seed);
        const expected = bfloat16Layer(openKernels("reference"), seed);
        actual.forEach((values, i) => {
          t.true(sameBits(values, expected[i]), `seed ${seed}, output ${i}`);
        });
      }
      resetIsa();
    },
  );
}

/**
 * Computes a layer forward and backward; half of its values are near the smallest float32. With a
 * negative seed the layer has one output, and inputs that fill whole vectors: the instruction set
 * that multiplies pairs of bfloat16 then reads its operands in place.
 */
function bfloat16Layer(k: Kernels, seed: number): Float32Array[] {
  const stream = new RandomStream(Math.abs(seed), 1);
  const [samples, several] = [1 + stream.below(60), 1 + stream.below(50)];
  const some = stream.below(5) === 0 ? 1000 + stream.below(100) : 1 + stream.below(40);
  const [inputs, outputs] = seed < 0 ? [16 * some, 1] : [some, several];
  const spread = (shape: readonly number[]) => {
    const t = random(k, stream, shape);
    k.write(
      t,
      k.read(t).map((v) => v * (stream.below(2) === 0 ? 1 : 2 ** -stream.below(130))),
    );
    return t;
  };
  const [x, w, b] = [spread([samples, inputs]), spread([outputs, inputs]), spread([outputs])];
  const [out, dX] = [k.tensor([samples, outputs]), k.tensor([samples, inputs])];
  k.linear(out, x, w, b, stream.below(2) === 0, "bfloat16");
  const d = spread([samples, outputs]);
  k.dLinearInput(dX, d, w, "bfloat16");
  const count = 1 << stream.below(4);
  const slices = { ...slicesOf(0, count, count, samples), first: 1 };
  const trees = subtreesOf(1, count);
  const dW = trees.map(() => k.tensor([outputs, inputs]));
  const dB = trees.map(() => k.tensor([outputs]));
  k.dLinearWeight(dW, dB, d, x, slices, "bfloat16");
  return [out, dX, ...dW, ...dB].map((t) => k.read(t));
}

test("random draws of native and reference kernels are the same numbers", (t) => {
  const native = startNative(t);
  if (native === undefined) return;
  const draws = scenarios["random draws"];
  if (draws === undefined) return t.fail();
  for (const seed of seeds) {
    const actual = draws(native, new RandomStream(seed, 1));
    t.deepEqual(actual, draws(openKernels("reference"), new RandomStream(seed, 1)));
  }
});

testIf(nativeKernels)("small tables of all kernels of a thread share one block of memory", (t) => {
  const spec = { rows: 4, dim: 2, pooling: "sum", rowBlocks: 1, stateWidth: 1 } as const;
  const memories = [1, 2].map(() => valuesOf(openKernels("native").rows(spec).state).buffer);
  t.is(memories[0], memories[1]);
});

test("native kernels run in several threads on shared memory", async (t) => {
  const native = startNative(t);
  if (native === undefined) return;
  const shape = { samples: 64, inputs: 40, outputs: 24 };
  const memory = new SharedArrayBuffer(4 * (8 + 40 * 24 + 2 * 64 * 24));
  const w = native.view(memory, 32, [shape.outputs, shape.inputs]);
  native.uniform(w, [1, 2], 1, 0, 1);
  const results = await Promise.all([0, 1].map((index) => startWorker(memory, index, shape)));
  t.deepEqual(results, [shape.samples, shape.samples]);
  const first = 32 + 4 * shape.outputs * shape.inputs;
  const outs = [0, 1].map((index) =>
    native.read(native.view(memory, first + index * 4 * 64 * 24, [64, 24])),
  );
  const x = native.tensor([64, 40]);
  native.uniform(x, [3, 4], 2, 0, 1);
  const out = native.tensor([64, 24]);
  native.linear(out, x, w, native.tensor([24]), false);
  t.deepEqual(outs, [native.read(out), native.read(out)]);
});

function startWorker(memory: SharedArrayBuffer, index: number, shape: object): Promise<unknown> {
  const workerData = { memory, index, ...shape };
  const worker = new Worker(new URL("linear-worker.js", import.meta.url), { workerData });
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

test("a kernel refuses an array of another type instead of reading it as floats", (t) => {
  const native = createNative();
  if (native === undefined) return void startNative(t);
  const t64 = openKernels("native").tensor([2]);
  const wrong = { shape: [2], data: new Float64Array(2) };
  t.throws(() => native.dRelu(wrong, t64), { instanceOf: TypeError });
});
