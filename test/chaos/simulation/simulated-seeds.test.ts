// Two hundred seeds of simulated clusters, as in `osiris chaos --simulate --seeds 1-200`.

import test from "ava";
import { simulateSeeds } from "../../../index.ts";

const seeds = Array.from({ length: 200 }, (_, i) => i + 1);

test("P4, P5, P6: two hundred schedules: nothing that must hold is broken, and every job ends", async (t) => {
  const { schedules, faults, failures } = await simulateSeeds({ seeds, jobs: 2 });
  t.deepEqual(failures, []);
  t.is(schedules, seeds.length);
  const injected = Object.values(faults).reduce((sum, count) => sum + count, 0);
  t.true(injected > 2 * schedules, `${injected} faults struck`);
  t.log(JSON.stringify(faults));
});
