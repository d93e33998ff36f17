// The session order: every session complete and in its order, sessions shuffled; and data with
// scattered sessions, which are refused.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { cutOf, EpochOrder } from "../../../src/data/sample-order.ts";
import { InputUnusableError, InvalidOptionError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";

const batchSize = 16;
const slices = 4;

/** A job on lines of (session, label, item). */
function startJob(t: { teardown(fn: () => void): void }, sessions: readonly string[], more = {}) {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  t.teardown(() => rmSync(directory, { recursive: true }));
  const path = join(directory, "clicks.csv");
  const lines = sessions.map((session, i) => `${session},${i % 2},${i}`);
  writeFileSync(path, ["visit,label,item", ...lines, ""].join("\n"));
  const data = { kind: "csv", paths: [path], label: "label", categorical: [{ column: "item" }] };
  const tables = [{ name: "item", rows: 100, dim: 4 }];
  return resolveJob({
    model: { kind: "dlrm", tables, top: [1] },
    data: { ...data, group: "visit", order: "sessions", batchSize, cache: directory, ...more },
    slices,
  });
}

/** Sessions of 1 to 7 lines, each contiguous. */
const clustered = Array.from({ length: 60 }, (_, session) =>
  new Array<string>(1 + (session % 7)).fill(`s${session}`),
).flat();

test("an epoch keeps each session complete and in order, and shuffles sessions anew", async (t) => {
  const job = startJob(t, clustered);
  const { contents } = await prepareData(job, realDisk, () => {});
  const split = cutOf(contents, slices);
  t.deepEqual(split?.splits?.starts.length, 61);
  const samples = clustered.length;
  const order = new EpochOrder({ seed: 1, shuffle: true, split }, { samples, batchSize });
  const seen = [0, 1].map((epoch) => {
    const indices = new Uint32Array(samples);
    order.fill(indices, epoch, 0);
    t.deepEqual(
      [...indices].sort((a, b) => a - b),
      [...clustered.keys()],
    );
    // A boundary between slices may cut a session: its rest then begins another slice's part.
    const breaks = [...indices].filter((sample, i) => {
      const isFirst = clustered[sample] !== clustered[sample - 1];
      return !isFirst && indices[i - 1] !== sample - 1;
    });
    const borders = slices * Math.ceil(samples / batchSize);
    t.true(breaks.length <= borders, `${breaks.length} breaks`);
    return indices.join();
  });
  t.not(seen[0], seen[1]);
});

test("samples of a session in two places are refused by file, sample and column", async (t) => {
  const job = startJob(t, [...clustered, "s3"]);
  const error = await t.throwsAsync(
    prepareData(job, realDisk, () => {}),
    {
      instanceOf: InputUnusableError,
    },
  );
  const [path] = "paths" in job.data ? job.data.paths : [];
  const where = `sample ${clustered.length + 1} of ${path} has a \`visit\``;
  t.true(error.message.includes(where), error.message);
  t.true(error.message.includes("osiris cluster-sessions"));
});

test("the session order requires a session column", (t) => {
  const error = t.throws(() => startJob(t, clustered, { group: undefined }), {
    instanceOf: InvalidOptionError,
  });
  t.regex(error.message, /`data\.order` to be another order, or `data\.group` beside it/);
});

test("a session column that the file lacks is refused, with the columns that it has", async (t) => {
  const job = startJob(t, clustered, { group: "session" });
  const error = await t.throwsAsync(prepareData(job, realDisk, () => {}));
  t.regex(error.message, /session.*visit/);
});
