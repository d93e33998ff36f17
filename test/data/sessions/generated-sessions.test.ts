// Generated sessions: their lists repeat as often as the formula says, in session and in time
// order.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { syntheticOptions } from "../../../src/data/options.ts";
import { Sample } from "../../../src/data/sample.ts";
import { synthetic } from "../../../src/data/sources.ts";
import { writeSessionLines } from "../../../src/data/synthetic/generated-lines.ts";
import { Sessions } from "../../../src/data/synthetic/sessions.ts";
import { SyntheticSamples } from "../../../src/data/synthetic/synthetic.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { startDirectory } from "../data-files.ts";

type SessionOptions = NonNullable<Parameters<typeof synthetic>[0]["sessions"]>;

const tables = ["H", "I", "X"].map((name) => ({ name, rows: 10_000 }));

/** Generates the samples of a job with these sessions; gives the list of each feature. */
function startSamples(sessions: SessionOptions, samples: number, more: object = {}) {
  const section = synthetic({ samples, batchSize: 1, dense: 2, sessions, ...more });
  const options = checkOptions(syntheticOptions, section);
  const generator = new SyntheticSamples(options, tables);
  const sample = new Sample({ dense: 2, features: tables.length });
  const listsOf = (index: number) => {
    generator.fill(sample, index);
    let first = 0;
    return tables.map((_, feature) => {
      const end = first + (sample.lengths[feature] ?? 0);
      const ids = [...sample.ids.subarray(first, end)];
      const weights = [...sample.weights.subarray(first, end)];
      first = end;
      return { ids, weights };
    });
  };
  const features = tables.map(({ name }) => name);
  const { seed, sessions: resolved } = options;
  if (resolved === undefined) throw new TypeError("sessions");
  return { listsOf, places: new Sessions({ seed, samples, sessions: resolved, features }) };
}

for (const samples of [4, 8, 16]) {
  for (const d of [0.8, 0.9, 0.95, 1]) {
    test(`sessions of ${samples} with d ${d} repeat lists as often as the formula says`, (t) => {
      const count = 4000 * samples;
      const { listsOf } = startSamples({ samples, features: { H: { d, l: 5 } } }, count);
      let [ids, kept] = [0, 0];
      for (let first = 0; first < count; first += samples) {
        const lists = Array.from({ length: samples }, (_, i) => listsOf(first + i)[0]?.ids ?? []);
        ids += lists.flat().length;
        for (const text of new Set(lists.map((list) => list.join(" ")))) {
          kept += text.split(" ").length;
        }
      }
      const factor = ids / kept;
      const formula = 1 / (1 - (d * (samples - 1)) / samples);
      t.true(Math.abs(factor / formula - 1) < 0.03, `${factor} beside ${formula}`);
    });
  }
}

test("a changed list loses its first id and gains one at its end", (t) => {
  const features = { H: { d: 0.5, l: 4 }, I: { d: 0.5, l: { min: 0, max: 9 } } };
  const { listsOf, places } = startSamples({ mean: 5, features }, 2000);
  let [kept, shifted] = [0, 0];
  for (let index = 1; index < 2000; index++) {
    if (places.placeOf(index).position === 0) continue;
    for (const feature of [0, 1]) {
      const [before, now] = [index - 1, index].map((i) => listsOf(i)[feature]?.ids ?? []);
      if (String(now) === String(before)) kept++;
      else {
        t.deepEqual(now?.slice(0, -1), before?.slice(1));
        shifted++;
      }
    }
  }
  t.true(kept > 1000 && shifted > 1000, `${kept} kept, ${shifted} shifted`);
});

test("features of a group change together, others independently", (t) => {
  const features = {
    H: { d: 0.7, group: "clicks" },
    I: { d: 0.7, group: "clicks" },
    X: { d: 0.7 },
  };
  const more = { idsPerBag: 6, weights: "uniform" };
  const { listsOf, places } = startSamples({ samples: 10, features }, 1000, more);
  const changes = [0, 0, 0];
  let together = 0;
  for (let index = 1; index < 1000; index++) {
    if (places.placeOf(index).position === 0) continue;
    const [before, now] = [listsOf(index - 1), listsOf(index)];
    const [h, i, x] = now.map((list, f) => JSON.stringify(list) !== JSON.stringify(before[f]));
    t.is(h, i);
    for (const [f, changed] of [h, i, x].entries())
      changes[f] = (changes[f] ?? 0) + Number(changed);
    together += Number(h && x);
  }
  const [h = 0, , x = 0] = changes;
  t.true(h > 200 && h < 340 && x > 200 && x < 340, String(changes));
  t.true(together > 40 && together < 140, `${together}: independent ones agree by chance`);
});

test("session lengths are geometric around their mean", (t) => {
  const { places } = startSamples({ mean: 16.5, features: {} }, 200_000);
  t.true(Math.abs(200_000 / places.count / 16.5 - 1) < 0.03, `${places.count} sessions`);
  const ones = Array.from({ length: 200_000 }, (_, i) => places.placeOf(i)).filter(
    ({ position }) => position === 1,
  );
  // A share of 1 - 1 / mean of the sessions has a second sample.
  t.true(Math.abs(ones.length / places.count - (1 - 1 / 16.5)) < 0.01);
});

test("time order has the same samples by arrival, about 1.15 per session in a batch", (t) => {
  const samples = 60_000;
  const features = { H: { d: 0.9, l: 3 } };
  // A tenth of the usual concurrent sessions and of the batch of 2,048.
  const [open, batch] = [640, 205];
  const sorted = startSamples({ mean: 16.5, features }, samples);
  const timed = startSamples({ mean: 16.5, features, order: "time", open }, samples);
  let before = 0;
  const positions = new Map<number, number>();
  const found: number[] = [];
  let inBatch = new Set<number>();
  for (let index = 0; index < samples; index++) {
    const place = timed.places.placeOf(index);
    const time = timed.places.timeOf(place);
    if (time < before) t.fail(`sample ${index} came before the one in front of it`);
    before = time;
    if ((positions.get(place.session) ?? 0) !== place.position) t.fail(`sample ${index}`);
    positions.set(place.session, place.position + 1);
    inBatch.add(place.session);
    if ((index + 1) % batch !== 0) continue;
    if (index > 20_000 && index < 50_000) found.push(batch / inBatch.size);
    inBatch = new Set();
  }
  t.is(positions.size, sorted.places.count);
  const mean = found.reduce((sum, one) => sum + one, 0) / found.length;
  t.true(mean > 1.12 && mean < 1.18, `${mean} samples of a session in a batch`);
  // A session has the same lists wherever its samples lie.
  const place = timed.places.placeOf(40_000);
  const at = Array.from({ length: samples }, (_, i) => i).find((i) => {
    const other = sorted.places.placeOf(i);
    return other.session === place.session && other.position === place.position;
  });
  t.deepEqual(sorted.listsOf(at ?? 0)[0], timed.listsOf(40_000)[0]);
});

test("sessions as JSON lines have their samples by time, with the lists of a user", (t) => {
  const path = join(startDirectory(t), "clicks.jsonl");
  const report = writeSessionLines({ samples: 5000, mean: 8, rows: 500, seed: 3 }, path);
  t.is(report.samples, 5000);
  const rows = readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { session: number; time: number; user8: number[] });
  t.is(rows.length, 5000);
  const sessions = new Map<number, typeof rows>();
  for (const row of rows) sessions.set(row.session, [...(sessions.get(row.session) ?? []), row]);
  t.true(sessions.size > 500 && sessions.size < 800, `${sessions.size} sessions`);
  for (const own of sessions.values()) {
    t.is(new Set(own.map(({ user8 }) => user8.join())).size, 1, "user8 never changes");
  }
  t.deepEqual(
    rows.map(({ time }) => time),
    rows.map(({ time }) => time).sort((a, b) => a - b),
  );
});

const refused: [string, SessionOptions, RegExp][] = [
  ["neither mean nor samples", { features: {} }, /`sessions` to be one of `mean` and `samples`/],
  ["both", { mean: 2, samples: 2, features: {} }, /one of `mean` and `samples`/],
  ["open in session order", { mean: 2, open: 5, features: {} }, /`sessions.open` to be left out/],
  ["a probability above 1", { mean: 2, features: { H: { d: 1.1 } } }, /`sessions.features.H.d`/],
  ["an unknown feature", { mean: 2, features: { other: { d: 1 } } }, /names of features.*`other`/],
  [
    "a group of two minds",
    { mean: 2, features: { H: { d: 1, group: "g" }, I: { d: 0.5, group: "g" } } },
    /`sessions.features.I.d` to be 1, as that of the group g/,
  ],
];
for (const [what, sessions, pattern] of refused) {
  test(`sessions with ${what} are refused`, (t) => {
    t.throws(() => startSamples(sessions, 10), { message: pattern });
  });
}

test("time order with more samples than memory holds is refused", (t) => {
  const sessions = { mean: 2, order: "time", features: {} } as const;
  const error = t.throws(() => startSamples(sessions, 2 ** 28 + 1));
  t.regex(error?.message ?? "", /`samples` to be at most 268435456 with sessions in time order/);
});
