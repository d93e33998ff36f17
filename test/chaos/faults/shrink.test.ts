// Shrinking: the smallest part of a schedule that still fails.

import test from "ava";
import { shrink } from "../../../chaos/faults/shrink.ts";
import { fc } from "../../helpers/properties.ts";

test("a schedule shrinks to the two faults that fail only together, in order", async (t) => {
  const faults = Array.from({ length: 20 }, (_, i) => i);
  const fails = (part: readonly number[]) => part.includes(3) && part.includes(17);
  t.deepEqual(await shrink(faults, fails), [3, 17]);
});

test("a schedule that fails without any fault shrinks to none", async (t) => {
  t.deepEqual(await shrink(["kill", "pause"], () => true), []);
});

test("a schedule that does not fail cannot be shrunk", async (t) => {
  await t.throwsAsync(
    shrink(["kill"], () => false),
    { message: /does not fail/ },
  );
});

test("a shrunk schedule still fails, and fails no more without any one of its faults", async (t) => {
  const needed = fc.array(fc.uniqueArray(fc.nat(11), { minLength: 1 }), {
    minLength: 1,
    maxLength: 3,
  });
  await fc.assert(
    fc.asyncProperty(needed, async (causes) => {
      const seen = new Set<string>();
      const fails = (part: readonly number[]) => {
        t.false(seen.has(part.join()), "no part is run twice");
        seen.add(part.join());
        return isCause(part);
      };
      const isCause = (part: readonly number[]) =>
        causes.some((cause) => cause.every((one) => part.includes(one)));
      const least = await shrink(
        Array.from({ length: 12 }, (_, i) => i),
        fails,
      );
      t.true(isCause(least));
      for (const one of least) t.false(isCause(least.filter((other) => other !== one)));
    }),
  );
});
