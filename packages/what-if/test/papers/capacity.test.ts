// Model-F in the memory of its paper's hosts: 96, 48 and 24 TB.

import test from "ava";
import { capacities, placesOf } from "../../bench/papers/capacity.ts";
import { readHardware } from "../../hardware/read-hardware.ts";

test("model-F fits into devices and hosts only after its bytes are halved twice", (t) => {
  // A sixteenth of its rows on one of its hosts, so that the search is short.
  const devices = { hosts: 1, perHost: 8 };
  const [whole, rowWise, half] = capacities("model-f", readHardware("zionex"), devices, 1 / 16);
  const share = (of = 0) => Math.round((100 * of) / (whole?.bytes ?? 0));
  t.deepEqual([share(rowWise?.bytes), share(half?.bytes)], [50, 25]);
  t.is(Math.round((16 * (whole?.bytes ?? 0)) / 1e12), 96);
  for (const refused of [whole, rowWise]) {
    if (refused?.found.isFeasible !== false) return t.fail("it has room");
    const [{ kind, sentence } = { kind: "", sentence: "" }] = refused.found.unmet;
    t.is(kind, "host");
    t.regex(sentence, /with their optimizer's state; the host has 1500000000000 for them/);
  }
  if (half?.found.isFeasible !== true) return t.fail("it has no room");
  const { assessment, plan, tables } = half.found;
  t.is(assessment.lacksBytes, 0);
  t.true(assessment.hostBytes.every((bytes) => bytes > 0.6e12 && bytes <= 1.5e12));
  t.log(
    placesOf(plan.shards)
      .map(([place, count]) => `${count} ${place}`)
      .join("; "),
  );
  t.true(plan.shards.some(({ tier }) => tier === "cached"));
  t.true(plan.shards.some(({ tier }) => tier === "memory"));
  t.true(tables.every(({ rows }) => rows === undefined || rows.ssd === 0));
});
