// The join depends only on the contents of its two streams: the rows follow the rules in
// docs/data.md, for any order of arrival and any number of process deaths. Files are compared byte
// by byte.

import { join } from "node:path";
import test from "ava";
import { realDisk } from "../../../../src/ports/disk.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fc } from "../../../../test/helpers/properties.ts";
import { rounds, stride } from "../../../../test/helpers/thinned.ts";
import { mortalDisk } from "../warehouse/tables.ts";
import { hashesOf, ingestInto, quickDisk, rowsOf } from "./ingested.ts";
import { type Drawn, eventsByLaw, MemoryStreams, rowsByLaw } from "./streams.ts";

const law = { windowMs: 12, latenessMs: 15 };
const files = { fileRows: 4, groupRows: 3, fileSpanMs: 2000, rejectedMax: 1 };

/**
 * Messages whose times mostly increase, with few distinct requests, so that requests match, repeat
 * and are late.
 */
function drawnStream(last: number): fc.Arbitrary<Drawn[]> {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 5 }) },
    { weight: 3, arbitrary: fc.integer({ min: -14, max: -1 }) },
    { weight: 1, arbitrary: fc.integer({ min: -40, max: 60 }) },
  );
  const one = fc.record({
    step,
    request: fc.option(fc.constantFrom("a", "b", "c", "d", "e"), { freq: 12, nil: undefined }),
    label: fc.integer({ min: 1, max: 3 }),
  });
  return fc.array(one, { maxLength: 40 }).map((steps) => {
    let time = 100;
    const stream = steps.map(({ step: by, request, label }): Drawn => {
      time = Math.max(0, time + by);
      return request === undefined ? { time } : { request, time, label, price: time % 7 };
    });
    return [...stream, { time: last }];
  });
}

const streams = fc.record({ features: drawnStream(5000), events: drawnStream(9000) });

test("rows and labels follow the documented law of the join", async (t) => {
  const home = startDirectory(t);
  let run = 0;
  const check = fc.asyncProperty(streams, async ({ features, events }) => {
    const out = join(home, String(run++));
    const source = new MemoryStreams(features, events);
    const { counts } = await ingestInto(out, source, { ...law, ...files }, { disk: quickDisk });
    const rows = await rowsOf(out);
    const found = rows.map(({ sequence, label }) => [sequence, label]);
    t.deepEqual(found, rowsByLaw(features, events, law));
    t.is(counts.rows, rows.length);
    t.like(counts, eventsByLaw(features, events, law));
    realDisk.remove(out);
  });
  await fc.assert(check, { numRuns: rounds("streams that are joined", 8, 70) });
});

test("files are the same for any arrival of messages and any end of a process", async (t) => {
  const home = startDirectory(t);
  let run = 0;
  const ends = fc.array(
    fc.record({
      kind: fc.constantFrom("idle", "killed", "dies", "stopped"),
      share: fc.integer({ min: 0, max: 100 }),
      seed: fc.integer({ min: 1, max: 1000 }),
    }),
    { maxLength: 5 },
  );
  const check = fc.asyncProperty(streams, ends, async ({ features, events }, disturbances) => {
    const [calm, wild] = [join(home, `calm-${run}`), join(home, `wild-${run++}`)];
    const all = () => new MemoryStreams(features, events);
    await ingestInto(calm, all(), { ...law, ...files }, { disk: quickDisk });
    const shares = disturbances.map(({ share }) => share).sort((a, b) => a - b);
    for (const [i, { kind, seed }] of disturbances.entries()) {
      const share = (shares[i] ?? 0) / 100;
      const shown = {
        features: Math.floor(share * features.length),
        events: Math.floor(Math.sqrt(share) * events.length),
      };
      const pauses = () => (i * 7 + seed) % 4;
      let messages = 0;
      const back = () => (++messages % 5 === 0 ? 3 : 0); // Redelivers lost messages.
      const controller = new AbortController();
      const onRead = (read: number) => {
        if (kind === "stopped" && read === seed % 50) controller.abort();
      };
      const diesAfter = kind === "dies" ? { diesAfter: seed % 60 } : {};
      const source = new MemoryStreams(features, events, {
        shown,
        pauses,
        back,
        onRead,
        ...diesAfter,
      });
      const disk = kind === "killed" ? mortalDisk(seed % 60) : quickDisk;
      const { signal } = controller;
      await ingestInto(wild, source, { ...law, ...files }, { disk, signal }).catch((error) => {
        if (!/the process died/.test(String(error))) throw error;
      });
      removeLock(wild);
    }
    await ingestInto(wild, all(), { ...law, ...files }, { disk: quickDisk });
    t.deepEqual(hashesOf(wild), hashesOf(calm));
    for (const out of [calm, wild]) realDisk.remove(out);
  });
  await fc.assert(check, { numRuns: rounds("streams that are joined with ends between", 6, 60) });
});

/** Removes the lock of the dead process, so that this process can continue its directory. */
function removeLock(directory: string): void {
  for (const name of realDisk.list(directory)) {
    if (name.startsWith(".ingesting-")) realDisk.remove(join(directory, name));
  }
}

test("after a process dies before any disk change, the next one makes the same files", async (t) => {
  const home = startDirectory(t);
  const features: Drawn[] = Array.from({ length: 40 }, (_, i) => {
    return { request: `r${i}`, time: 100 + 3 * i, price: i };
  });
  const events: Drawn[] = features.flatMap(({ request, time }, i) => {
    return i % 3 === 0 && request !== undefined ? [{ request, time: time + 4, label: 1 }] : [];
  });
  const options = { ...law, ...files, fileRows: 9 };
  const source = (shown = features.length) => {
    const all = [...events, { time: 250 }];
    return new MemoryStreams(features, all, { shown: { features: shown, events: all.length } });
  };
  const calm = join(home, "calm");
  const { openRows } = await ingestInto(calm, source(), options);
  t.true(openRows > 0);
  const expected = hashesOf(calm);
  t.true(Object.keys(expected).length > 4);
  const again = join(home, "again");
  let died = true;
  let deaths = 0;
  const every = stride("changes that an ingestion dies before", 8);
  for (; died; deaths += every) {
    const wild = join(home, `wild-${deaths}`);
    const disk = mortalDisk(deaths);
    died = await ingestInto(wild, source(33), options, { disk })
      .then(() => false)
      .catch((error) => /died/.test(String(error)));
    removeLock(wild);
    // The same directory, with a process death at one point after another.
    await ingestInto(again, source(38), options, { disk: mortalDisk(deaths) }).catch(() => {});
    removeLock(again);
    await ingestInto(wild, source(), options, { disk: quickDisk });
    t.deepEqual(hashesOf(wild), expected, `after ${deaths} changes`);
    realDisk.remove(wild);
  }
  t.true(deaths > 40, `${deaths} places`);
  await ingestInto(again, source(), options);
  t.deepEqual(hashesOf(again), expected);
});
