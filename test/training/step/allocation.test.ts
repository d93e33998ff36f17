// In steady state, a step leaves the same garbage to the collector at any batch size.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import test from "ava";
import { startHeapMeter } from "../../../bench/step/heap.ts";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { trainStep } from "../../../src/training/step/step.ts";
import { localPart, startLocalDevices } from "../../helpers/devices/local-devices.ts";

const idsMax = [1, 3];
const rows = 50;
const dense = 4;
/** Steps until the JIT compiler settles: its garbage does not count for a step. */
const warmUpSteps = 400;
const windows = 4;
const windowSteps = 100;

/** The minimum of heap and array buffer bytes that a step on `samples` samples allocates. */
async function bytesPerStep(samples: number): Promise<number> {
  const tables = idsMax.map((_, i) => ({ name: `T${i}`, rows, dim: 8 }));
  const model = modelOptions.parse({ kind: "dlrm", dense, tables, bottom: [8], top: [8, 1] });
  const local = startLocalDevices({
    input: { model, batchSize: samples, slices: 8, idsMax },
    recipe: {
      optimizer: optimizerOf({ kind: "adagrad" }, { kind: "rowWiseAdagrad", learningRate: 0.1 }),
      seed: 3,
    },
    devices: 1,
    kernels: () => openKernels("auto"),
  });
  const [device] = local.states;
  if (device === undefined) throw new RangeError("There is no device");
  const stream = new RandomStream(9, 1, samples);
  const batch = localPart(local.topology, 0, {
    samples,
    dense: Float32Array.from({ length: samples * dense }, () => stream.normal()),
    labels: Float32Array.from({ length: samples }, () => stream.below(2)),
    lengths: Int32Array.from({ length: samples * idsMax.length }, (_, bag) =>
      bag < samples ? 1 : 3,
    ),
    ids: Int32Array.from({ length: samples * 4 }, () => stream.below(rows)),
  });
  let step = 0;
  while (step < warmUpSteps) await trainStep(device, batch, step++, -1);
  const found: number[] = [];
  for (let window = 0; window < windows; window++) {
    const meter = startHeapMeter();
    for (let i = 0; i < windowSteps; i++) {
      await trainStep(device, batch, step++, -1);
      meter.look();
    }
    const { heapBytes, externalBytes } = meter.stop();
    found.push((heapBytes + externalBytes) / windowSteps);
  }
  return Math.min(...found);
}

/** Collects twice: array buffers found by one collection are freed when the next one begins. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  collect();
}

test.serial("the meter counts allocations on the heap and in array buffers", (t) => {
  collectGarbage(); // A collection between two readings would hide the allocation.
  const meter = startHeapMeter();
  const kept: unknown[] = [];
  for (let i = 0; i < 1000; i++) {
    kept.push(new Array(100).fill(i), new Uint8Array(10_000));
    meter.look();
  }
  const { heapBytes, externalBytes } = meter.stop();
  t.is(kept.length, 2000);
  t.true(heapBytes > 800_000 && heapBytes < 4_000_000, `${heapBytes} bytes of heap`);
  t.true(externalBytes >= 10_000_000 && externalBytes < 12_000_000, `${externalBytes} outside`);
});

test.serial("a step on 1024 samples allocates no more than one on 64", async (t) => {
  const small = await bytesPerStep(64);
  const large = await bytesPerStep(1024);
  t.log(`${small.toFixed(0)} bytes a step on 64 samples, ${large.toFixed(0)} on 1024`);
  // 960 more samples take less than 4 bytes each: a number on the heap takes 16.
  t.true(large < small + 960 * 4, `${small} bytes a step, ${large} on the large batch`);
});
