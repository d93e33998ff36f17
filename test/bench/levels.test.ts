// Which rounds of a comparison belong to which level of the machine's speed.

import test from "ava";
import { type Levelled, levelsOf } from "../../bench/step/levels.ts";

const at = (level: number, rate: number): Levelled => ({ level, rate });

test("pairs are compared within a level, and a pair across levels is left out", (t) => {
  const levels = levelsOf([
    { ours: at(190, 30), peer: at(188, 20) },
    { ours: at(121, 20), peer: at(120, 10) },
    { ours: at(186, 28), peer: at(191, 20) },
    { ours: at(190, 30), peer: at(119, 10) },
    { ours: at(187, 26), peer: at(189, 20) },
  ]);
  t.deepEqual(
    levels.map(({ level, pairs, ratio }) => [level, pairs.length, ratio]),
    [
      [188.5, 3, 1.4],
      [120.5, 1, 2],
    ],
  );
});
