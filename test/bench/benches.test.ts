// What every bench declares before it measures: names, a duration, and filtering.

import test from "ava";
import { type Bench, narrowed, wantedBy } from "../../bench/bench.ts";
import { benches } from "../../bench/benches.ts";
import { type DeclareTest, dataFile, testIf } from "../helpers/needs.ts";

const secondsMax = 8 * 60;

function defaultsOf(bench: Bench): Record<string, unknown> {
  return Object.fromEntries(
    bench.options.map((option) => [option.attributeName(), option.defaultValue]),
  );
}

/** Benches whose rows all need real data: without the data they have no rows. */
const needs: Readonly<Record<string, DeclareTest>> = {
  sharding: testIf(dataFile("sharding/tables856.json.gz")),
};

for (const [name, bench] of Object.entries(benches)) {
  const declare: DeclareTest = needs[name] ?? test;
  const measurements = bench.measurements(defaultsOf(bench));
  const names = measurements.flatMap((measurement) => measurement.names);

  declare(`${name}: expects to take at most eight minutes at its defaults`, (t) => {
    const seconds = measurements.reduce((sum, one) => sum + one.seconds, 0);
    t.true(seconds > 0 && seconds <= secondsMax, `${seconds} s`);
  });

  declare(`${name}: knows the names of its rows before it measures, each once`, (t) => {
    t.true(names.length > 0);
    t.deepEqual(names, [...new Set(names)]);
  });

  declare(`${name}: can be narrowed to any of its rows`, (t) => {
    for (const row of names) {
      const kept = narrowed(measurements, [row]);
      t.true(kept.length >= 1);
      t.true(kept.every((one) => one.names.some((other) => other.startsWith(row))));
    }
  });

  declare(`${name}: the long run has all rows of the short one`, (t) => {
    const long = bench.measurements({ ...defaultsOf(bench), ...bench.full });
    const rows = new Set(long.flatMap((measurement) => measurement.names));
    t.deepEqual(
      names.filter((row) => !rows.has(row)),
      [],
    );
  });
}

test("an --only pattern is the prefix of a name, where a star matches anything", (t) => {
  const isWanted = wantedBy(["wire.allToAll", "*.barrier"]);
  t.true(isWanted("wire.allToAll.8MiB"));
  t.true(isWanted("shared.barrier"));
  t.false(isWanted("shared.allToAll.8MiB"));
  t.false(wantedBy(["wire.all.o"])("wire.allToAll.8MiB"));
  t.true(wantedBy([])("anything"));
});
