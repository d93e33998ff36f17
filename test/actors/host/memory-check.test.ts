// Rows and buffers that cannot fit into the memory of their host are refused before memory is
// reserved.

import test from "ava";
import { checkMemory } from "../../../actors/host/data-preparation.ts";
import { layingOutHost } from "../../../actors/threads/generation-memory.ts";
import type { GenerationSpec } from "../../../actors/threads/generation-spec.ts";
import type { RunEvent } from "../../../index.ts";
import { BuffersExceededError, MemoryExceededError } from "../../../src/errors/errors.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { atOnce } from "../../../src/ports/turns.ts";
import { bufferMemoryOf } from "../../../src/training/topology/buffer-memory.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";

/** A generation of two devices on one host, whose tables have the options `table`. */
function generationOf(table: object, other: object = {}, bags: object = { idsMax: [1, 1] }) {
  const job = resolveJob({
    model: {
      kind: "dlrm",
      tables: [
        { name: "user", rows: 1000, dim: 8, ...table },
        { name: "item", rows: 100, dim: 8, ...other },
      ],
      top: [1],
    },
    data: { kind: "synthetic", samples: 100, dense: 0, batchSize: 16 },
    optimizer: { sparse: { kind: "adam" } },
  });
  const spec = {
    run: "r1-1",
    generation: 1,
    job,
    devices: 2,
    hosts: [{ host: 0, devices: 2 }],
    data: { training: { path: "cache", samples: 100 }, contents: {}, ...bags },
  } as unknown as GenerationSpec;
  const place = { host: 0, position: 0, first: 0, count: 2 };
  return { spec, place, laidOut: atOnce(layingOutHost(spec, place)) };
}

/** Bytes of a row of eight columns: weights, and Adam's two moments. */
const rowBytes = 3 * 4 * 8;

test("the memory of a table counts rows, optimizer state and precision, over all local devices", (t) => {
  const bytes = (table: object, other?: object) => {
    return generationOf(table, other).laidOut.tables.map((one) => one.bytes);
  };
  t.deepEqual(bytes({}), [1000 * rowBytes, 100 * rowBytes]);
  t.deepEqual(bytes({ rows: 10 }), [100 * rowBytes, 10 * rowBytes], "the largest first");
  t.deepEqual(bytes({ precision: "float16" })[0], 1000 * (rowBytes - 2 * 8));
  t.deepEqual(bytes({ tier: "cached" }), [100 * rowBytes], "rows below memory do not count");
  t.deepEqual(bytes({ sharding: "data-parallel" })[0], 2 * 1000 * rowBytes, "a copy a device");
  t.deepEqual(bytes({ sharding: "row-wise", rowBlocks: 2 })[0], 1000 * rowBytes);
});

test("a host refuses tables beyond its memory, and names the largest ones", (t) => {
  const { spec, laidOut, place } = generationOf({});
  const needed = 1100 * rowBytes;
  const error = t.throws(() => checkMemory(spec, laidOut, place, needed - 1), {
    instanceOf: MemoryExceededError,
  });
  t.is(error.recovery, "stop");
  t.regex(
    error.message,
    /^The tables need 0\.000106 GB of memory on host:0, which has 0\.000106 GB/,
  );
  t.regex(error.message, /`user` 0\.000096 GB \(1,000 rows of 8\), `item` .* `tier: "cached"`/);
});

test("buffers of batches count, and what exceeds the memory is refused by the feature's name", (t) => {
  const bytesOf = (idsMax: number[], idsMean?: number[]) => {
    const { spec, laidOut, place } = generationOf({}, {}, { idsMax, idsMean });
    const { exchangeShape, ringShape } = laidOut.layout;
    return { spec, laidOut, place, ...bufferMemoryOf(exchangeShape, ringShape, place) };
  };
  const short = bytesOf([1, 1]);
  const long = bytesOf([1, 6000]);
  const usual = bytesOf([1, 6000], [1, 2]);
  // One list of 6,000 ids takes the room of a few, not of one in every sample.
  t.true(long.bytes > 16 * 6000 * 4 * 6, `${long.bytes}`);
  t.true(usual.bytes < long.bytes / 4, `${usual.bytes} of ${long.bytes}`);
  t.true(usual.bytes > short.bytes);
  const rows = 1100 * rowBytes;
  const { spec, laidOut, place, bytes } = usual;
  t.notThrows(() => checkMemory(spec, laidOut, place, rows + bytes));
  const error = t.throws(() => checkMemory(spec, laidOut, place, rows + bytes - 1), {
    instanceOf: BuffersExceededError,
  });
  t.is(error.recovery, "stop");
  t.regex(error.message, /^The buffers of batches of 16 samples need .* on host:0, which has/);
  t.regex(error.message, /most of feature `item` \(2 in a sample, at most 6,000\)/);
  t.regex(error.message, /lower `data\.batchSize`, shorten the lists with the transform `firstX`/);
});

test.serial("a run whose batches fit no memory fails once, before its first step", async (t) => {
  await using place = await startCluster();
  const tables = Array.from({ length: 40 }, (_, i) => ({ name: `t${i}`, rows: 10, dim: 1024 }));
  const model = { kind: "dlrm", dense: 0, tables, top: [1] } as const;
  const data = { kind: "synthetic", samples: 500, dense: 0, batchSize: 2 ** 24 } as const;
  const { cache } = place.job().data;
  const run = await place.cluster.submit({ ...place.job(), model, data: { ...data, cache } });
  const failed: RunEvent[] = [];
  for await (const event of run.events()) {
    if (event.type === "run.incident" || event.type === "run.failed") failed.push(event);
  }
  t.is(failed.at(-1)?.type, "run.failed");
  const codes = failed.map((event) => ("error" in event ? event.error.code : event.type));
  t.deepEqual(new Set(codes), new Set(["BUFFERS_EXCEEDED"]));
  t.true(failed.length <= 2, JSON.stringify(failed));
});
