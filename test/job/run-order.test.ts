// A resumed run keeps the sample order that it started with.

import test from "ava";
import { inOrderOf } from "../../src/data/contents.ts";

const training = { samples: 9, digest: "d", version: 3, files: [] };

test("a new run has the order of its data, a resumed run its original order", (t) => {
  const now = { training, splitSamples: 100 };
  t.deepEqual(inOrderOf(undefined, now, true), now);
  t.is(inOrderOf({ training, splitSamples: 70 }, now, false).splitSamples, 70);
  t.is(inOrderOf({ training, splitSamples: 70 }, { training }, true).splitSamples, 70);
  // Runs from before the split order existed, with contents in their checkpoints and without.
  t.is(inOrderOf({ training }, now, false).splitSamples, undefined);
  t.is(inOrderOf(undefined, now, false).splitSamples, undefined);
});
