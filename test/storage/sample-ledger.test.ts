import test from "ava";
import { scheduleOf } from "../../src/training/schedule.ts";
import { type Stretch, sampleLedger, timesTrained } from "../../storage/sample-ledger.ts";

// 25 samples in batches of 10: three steps a pass, the last one short.
const schedule = scheduleOf({ samples: 25, batchSize: 10, passes: 2 });
const order = { seed: 3, shuffle: true };
const stretch = (generation: number, from: number, to: number): Stretch => ({
  generation,
  from,
  to,
});

test("stretches that meet end to end train every sample of every pass once", (t) => {
  const stretches = [stretch(1, 0, 2), stretch(2, 2, 4), stretch(2, 4, 6)];
  t.deepEqual([...timesTrained(stretches, schedule)], [1, 1, 1, 1, 1, 1]);
  const whole = { samples: 25, once: 25, never: 0, twice: 0 };
  t.deepEqual(sampleLedger(stretches, schedule, order), [whole, whole]);
});

test("a generation that began too early trained samples twice, one too late left some out", (t) => {
  const [twice] = sampleLedger([stretch(1, 0, 2), stretch(2, 1, 6)], schedule, order);
  t.deepEqual(twice, { samples: 25, once: 15, never: 0, twice: 10 });
  const [never] = sampleLedger([stretch(1, 0, 2), stretch(2, 3, 6)], schedule, order);
  t.deepEqual(never, { samples: 25, once: 20, never: 5, twice: 0 }, "the short batch is missing");
});
