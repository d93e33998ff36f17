// The closed form of goodput, against drawn failures; and the best time between checkpoints.

import test from "ava";
import { RandomStream } from "../../../../internal.ts";
import { goodputOf } from "../../predict/goodput.ts";

/** The share of kept training in a run whose failures are drawn, one at a time. */
function drawnGoodput(mtbf: number, save: number, restore: number, every: number): number {
  const random = new RandomStream(11, 0);
  const untilFailure = () => -mtbf * Math.log(1 - random.uniform());
  let [time, kept, failure] = [0, 0, untilFailure()];
  const stretches = 40_000;
  while (kept < stretches) {
    if (time + every + save <= failure) {
      time += every + save;
      kept++;
      continue;
    }
    // A failure, and others that come during the restore.
    do {
      time = failure;
      failure = time + untilFailure();
    } while (failure < time + restore);
    time += restore;
  }
  return (kept * every) / time;
}

for (const { mtbf, save, restore, every } of [
  { mtbf: 3600, save: 30, restore: 300, every: 600 },
  { mtbf: 900, save: 20, restore: 400, every: 500 },
  { mtbf: 86_400, save: 60, restore: 600, every: 3000 },
]) {
  test(`goodput with a failure every ${mtbf} s is that of drawn failures within 1 %`, (t) => {
    const { share } = goodputOf({ mtbf, save, write: 0, restore, every });
    const drawn = drawnGoodput(mtbf, save, restore, every);
    t.true(Math.abs(share / drawn - 1) < 0.01, `${share}, drawn ${drawn}`);
  });
}

test("if the time between checkpoints is left out, the best time is used", (t) => {
  const failures = { mtbf: 40_000, save: 20, write: 5, restore: 300 };
  const best = goodputOf(failures);
  t.is(best.every, Math.sqrt(2 * 20 * 40_000));
  for (const factor of [0.25, 0.5, 0.8, 1.25, 2, 4]) {
    const other = goodputOf({ ...failures, every: factor * best.every });
    t.true(other.share < best.share, `${factor}`);
  }
  // A checkpoint cannot begin before the one before it is written.
  t.is(goodputOf({ ...failures, write: 5000 }).every, 5000);
});

test("a run whose hosts fail before it has restarted makes no progress, whatever it would cost", (t) => {
  const failures = { mtbf: 1e-3, save: 20, write: 5, restore: 300 };
  t.is(goodputOf(failures).share, 0);
  t.is(goodputOf({ ...failures, mtbf: 20 }).share, 0);
  t.true(goodputOf({ ...failures, mtbf: 100 }).share > 0);
});

test("if hosts never fail, only checkpoints reduce the goodput", (t) => {
  t.is(goodputOf({ mtbf: Infinity, save: 20, write: 5, restore: 300 }).share, 1);
  t.is(goodputOf({ mtbf: Infinity, save: 20, write: 5, restore: 300, every: 180 }).share, 0.9);
});
