// The all-reduce in buckets and in fewer bits: its sum is a function of the slices and the rounding
// alone. It is compared with the definition: a recursion over the slice tree, which rounds plain
// numbers (rounds.ts).

import test from "ava";
import { createSoloCells } from "../../src/exchange/cells.ts";
import type { Exchange, ExchangeShape, GradientRounding } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { subtreesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { fc } from "../helpers/properties.ts";
import { rounds } from "../helpers/thinned.ts";
import { startBridgedHosts } from "./bridged-hosts.ts";
import { bucketsAt, gradientLength, roundsShape, sumOf, writeGradients } from "./rounds.ts";

const stormy = { delayMs: [0, 20], drop: 0.1, duplicate: 0.2, reorder: 0.2 } as const;

/** Devices of 1 to 4 hosts with consecutive slices, in uneven runs. */
const placements = fc
  .array(fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((hosts) => {
    const hostOf = hosts.flatMap((own, host) => own.map(() => host));
    const weights = hosts.flat();
    const all = weights.reduce((sum, own) => sum + own, 0);
    let before = 0;
    const subtrees = weights.map((own) => {
      const first = Math.floor((8 * before) / all);
      before += own;
      return subtreesOf(first, Math.floor((8 * before) / all) - first);
    });
    return { hostOf, subtrees };
  });

const roundings = fc.option(
  fc.record<GradientRounding>({
    precision: fc.constantFrom("bfloat16" as const, "float16" as const),
    grain: fc.constantFrom(1, 2, 4, 8),
    elements: fc.integer({ min: 1, max: gradientLength - 1 }),
  }),
  { nil: undefined },
);

/** Trains three rounds with random times of progress; returns the sums of device 0. */
async function sumsOf(shape: ExchangeShape, hostOf: readonly number[], seed: number) {
  const hosts = startBridgedHosts({ shape, hostOf, seed, faults: { ...stormy, delayMs: [0, 20] } });
  const sums: number[][] = [];
  await hosts.run(async (exchange: Exchange) => {
    const { gradients, rank } = exchange;
    for (let round = 1; round <= 3; round++) {
      await gradients.open();
      for (const [bucket, elements] of (shape.buckets ?? []).entries()) {
        writeGradients(shape, exchange, elements, round);
        if ((bucket + rank + round + seed) % 3 > 0) gradients.start(bucket + 1);
        if ((bucket + rank + seed) % 2 > 0) gradients.progress();
      }
      gradients.start();
      const sum = Array.from(valuesOf(await gradients.finish()));
      if (rank === 0) sums.push(sum);
      gradients.close();
    }
  });
  const wire = hosts.exchanges.reduce((all, { sent }) => all + sent.gradients.wire, 0);
  const carried = hosts.bridges.reduce((all, one) => all + one.traffic.bytes.gradients, 0);
  return { sums, wire, carried };
}

test("any hosts, devices and buckets give the sum of one bucket on one device, bit for bit", async (t) => {
  const cuts = fc.array(fc.integer({ min: 1, max: gradientLength - 1 }), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(
      placements,
      roundings,
      cuts,
      fc.nat(99),
      async (placed, rounding, some, seed) => {
        const { hostOf, subtrees } = placed;
        const border = rounding === undefined ? [] : [rounding.elements];
        const ends = [...new Set([0, gradientLength, ...border, ...some])].sort((a, b) => a - b);
        const way = { buckets: bucketsAt(ends), rounding };
        const shape = { ...roundsShape(hostOf.length, way), subtrees };
        const { sums, wire, carried } = await sumsOf(shape, hostOf, seed);
        t.is(wire, carried);
        for (const [i, sum] of sums.entries()) {
          const whole = { first: 0, count: 8 };
          const expected = sum.map((_, n) => sumOf(whole, n, i + 1, rounding));
          t.deepEqual(sum, expected);
        }
        t.is(sums.length, 3);
      },
    ),
    { numRuns: rounds("random all-reduces", 10, 400) },
  );
});

test("devices of one host add ready gradients while they compute, without waiting", async (t) => {
  const shape = roundsShape(2);
  const layout = layoutOf(shape);
  const memory = new ArrayBuffer(layout.bytes);
  const kernels = openKernels("reference");
  const cells = createSoloCells(layout.cells); // A wait that does not end at once throws.
  const exchanges = [0, 1].map((rank) => {
    return createSharedMemoryExchange({ shape, rank, memory, cells, kernels });
  });
  const whole = { first: 0, count: gradientLength };
  for (const { gradients } of exchanges) await gradients.open();
  for (const exchange of exchanges) {
    writeGradients(shape, exchange, whole, 1);
    exchange.gradients.start();
    exchange.gradients.progress();
  }
  const [first, last] = exchanges;
  await t.throwsAsync(async () => last?.gradients.finish(), { message: /device 0 to add up/ });
  first?.gradients.progress();
  // The last device can finish now, because the first one has folded its share in `progress`.
  for (const { gradients } of [...exchanges].reverse()) {
    const expected = Array.from({ length: gradientLength }, (_, n) => {
      return sumOf({ first: 0, count: 8 }, n, 1, undefined);
    });
    t.deepEqual(Array.from(valuesOf(await gradients.finish())), expected);
  }
});

test("rounded gradients take half the bytes between hosts that have whole parts", async (t) => {
  const length = 16 * 4 * 3; // Ranges of the same size.
  const bytesOf = async (hostOf: readonly number[], grain?: number) => {
    const rounding = grain && ({ precision: "bfloat16", grain, elements: length } as const);
    const way = { buckets: bucketsAt([0, 64, length]), ...(rounding && { rounding }) };
    const shape = { ...roundsShape(4, way), gradientLength: length };
    return (await sumsOf(shape, hostOf, 1)).carried / 3;
  };
  const [two, four] = [
    [0, 0, 1, 1],
    [0, 1, 2, 3],
  ] as const;
  const [exactTwo, exactFour] = [await bytesOf(two), await bytesOf(four)];
  t.is(exactTwo, 2 * 2 * (1 / 2) * 4 * length);
  t.is(await bytesOf(two, 1), exactTwo / 2);
  t.is(await bytesOf(two, 4), exactTwo / 2);
  t.is(await bytesOf(four, 2), exactFour / 2);
  // A host with half a grain sends it in float32; only the sums are halved.
  t.is(await bytesOf(four, 4), (3 / 4) * exactFour);
});
