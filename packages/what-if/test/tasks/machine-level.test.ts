// Levels of the machine's speed, and which of the times count.

import test from "ava";
import { boundOf, fasterHalf, isOfLevel, levelReader } from "../../tasks/machine-level.ts";

test("readings of the clock level that differ by little count as one level", (t) => {
  t.is(boundOf([180, 186, 195, 171]), 0);
  t.is(boundOf([]), 0);
  t.is(boundOf([0, 0]), 0);
});

test("readings on both sides of a wide gap count as two clock levels", (t) => {
  t.is(boundOf([120, 186, 122, 190, 0]), (122 + 186) / 2);
  t.true(isOfLevel(171, 190));
  t.true(isOfLevel(250, 190));
  t.false(isOfLevel(122, 190));
});

test("of several passes the faster half counts, and a single pass counts itself", (t) => {
  t.deepEqual(
    fasterHalf([5, 3, 9, 4, 8], (seconds) => seconds),
    [3, 4, 5],
  );
  t.deepEqual(
    fasterHalf([7], (seconds) => seconds),
    [7],
  );
});

test("two consecutive readings of a machine's clock level are of one level", (t) => {
  const read = levelReader();
  read(); // The first call compiles.
  const pairs = Array.from({ length: 5 }, () => [read(), read()] as const);
  t.true(pairs.some(([one, other]) => isOfLevel(one, other) && isOfLevel(other, one)));
});
