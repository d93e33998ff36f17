// Seeds of simulated clusters, as `osiris chaos --simulate` runs them; two hundred in the soak.

import test from "ava";
import { simulateSeeds } from "../../../index.ts";
import { rounds } from "../../helpers/thinned.ts";

const count = rounds("seeds of simulated clusters", 60, 200);
const seeds = Array.from({ length: count }, (_, i) => i + 1);

test(`P4, P5, P6: ${count} schedules: nothing that must hold is broken, and every job ends`, async (t) => {
  const { schedules, faults, failures } = await simulateSeeds({ seeds, jobs: 2 });
  t.deepEqual(failures, []);
  t.is(schedules, seeds.length);
  const injected = Object.values(faults).reduce((sum, count) => sum + count, 0);
  t.true(injected > 2 * schedules, `${injected} faults injected`);
  t.log(JSON.stringify(faults));
});
