// Rows and buffers that cannot fit into the memory of their host are refused before memory is
// reserved.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import test from "ava";
import { checkMemory, createWithin } from "../../../actors/host/data-preparation.ts";
import { layingOutHost } from "../../../actors/threads/generation-memory.ts";
import type { GenerationSpec } from "../../../actors/threads/generation-spec.ts";
import { checkSizes, hostMemoryOf, sharesOf } from "../../../actors/threads/host-memory.ts";
import { KeptRows } from "../../../actors/threads/kept-rows.ts";
import type { RunEvent } from "../../../index.ts";
import { RowKeeper } from "../../../src/embedding/rows/row-keeper.ts";
import { initialCut } from "../../../src/embedding/rows/undo-log.ts";
import {
  BuffersExceededError,
  MemoryExceededError,
  SizeExceededError,
} from "../../../src/errors/errors.ts";
import { ringLayoutOf } from "../../../src/exchange/batch-ring.ts";
import { channelNames } from "../../../src/exchange/exchange.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { atOnce } from "../../../src/ports/turns.ts";
import { bufferMemoryOf } from "../../../src/training/topology/buffer-memory.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import { ringShapeOf, topologyOf } from "../../../src/training/topology/topology.ts";
import { ReplicaCache } from "../../../storage/checkpoints/replicas/replica-cache.ts";
import { tierRingOf } from "../../../storage/tiers/shape.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";

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
  const laidOut = atOnce(layingOutHost(spec, place));
  return { spec, place, layout: laidOut.layout, laidOut };
}

/** Bytes of a row of eight columns: weights, and Adam's two moments. */
const rowBytes = 3 * 4 * 8;

test("the memory of a table counts rows, optimizer state and precision, over all local devices", (t) => {
  const bytes = (table: object, other?: object) => {
    const { spec, layout, place } = generationOf(table, other);
    return hostMemoryOf(spec.job, layout, place).tables.map((one) => one.bytes);
  };
  t.deepEqual(bytes({}), [1000 * rowBytes, 100 * rowBytes]);
  t.deepEqual(bytes({ rows: 10 }), [100 * rowBytes, 10 * rowBytes], "the largest table first");
  t.deepEqual(bytes({ precision: "float16" })[0], 1000 * (rowBytes - 2 * 8));
  t.deepEqual(bytes({ tier: "cached" }), [100 * rowBytes], "rows below memory do not count");
  t.deepEqual(bytes({ sharding: "data-parallel" })[0], 2 * 1000 * rowBytes, "a copy a device");
  t.deepEqual(bytes({ sharding: "row-wise", rowBlocks: 2 })[0], 1000 * rowBytes);
});

test("a host refuses tables beyond its memory, and names the largest ones", (t) => {
  const { spec, layout, place } = generationOf({});
  const needed = 1100 * rowBytes;
  const error = t.throws(() => checkMemory(spec, layout, place, needed - 1), {
    instanceOf: MemoryExceededError,
  });
  t.is(error.recovery, "stop");
  t.regex(
    error.message,
    /^The tables need 0\.000106 GB of memory on host:0, which has 0\.000106 GB/,
  );
  t.regex(error.message, /`user` 0\.000096 GB \(1,000 rows of 8\), `item` .* `tier: "cached"`/);
});

test("buffers of batches count as memory, and the error names the feature that exceeds it", (t) => {
  const bytesOf = (idsMax: number[], idsMean?: number[]) => {
    const { spec, layout, place } = generationOf({}, {}, { idsMax, idsMean });
    return { spec, layout, place, bytes: hostMemoryOf(spec.job, layout, place).otherBytes };
  };
  const short = bytesOf([1, 1]);
  const long = bytesOf([1, 6000]);
  const usual = bytesOf([1, 6000], [1, 2]);
  // One list of 6,000 ids needs memory for a few such lists, not for one in every sample.
  t.true(long.bytes > 16 * 6000 * 4 * 6, `${long.bytes}`);
  t.true(usual.bytes < long.bytes / 4, `${usual.bytes} of ${long.bytes}`);
  t.true(usual.bytes > short.bytes);
  const rows = 1100 * rowBytes;
  const { spec, layout, place, bytes } = usual;
  t.notThrows(() => checkMemory(spec, layout, place, rows + bytes));
  const error = t.throws(() => checkMemory(spec, layout, place, rows + bytes - 1), {
    instanceOf: BuffersExceededError,
  });
  t.is(error.recovery, "stop");
  t.regex(error.message, /^The buffers of batches of 16 samples need .* on host:0, which has/);
  t.regex(error.message, /most of feature `item` \(2 in a sample, at most 6,000\)/);
  t.regex(error.message, /lower `data\.batchSize`, shorten the lists with the transform `firstX`/);
});

test("sizes beyond any array or cell are refused in one sentence, even with enough memory", (t) => {
  const refusal = (
    of: ReturnType<typeof generationOf>,
    changed: object = {},
    tiers: object = {},
  ) => {
    const { spec, layout, place } = of;
    const { topology, exchangeShape, ringShape, tierRings } = layout;
    const job = { ...spec.job, tiers: { ...spec.job.tiers, ...tiers } };
    const shapes = { topology, exchangeShape, ringShape, tierRings, ...changed };
    const check = () => checkSizes(job, shapes, place, "item");
    return t.throws(check, { instanceOf: SizeExceededError })?.message ?? "";
  };
  const usual = generationOf({});
  const { exchangeShape } = usual.layout;
  const bytesMax = { ...exchangeShape.bytesMax, dPooled: () => 2 ** 33 };
  t.regex(
    refusal(usual, { exchangeShape: { ...exchangeShape, bytesMax } }),
    /that device 0 receives in a step: 17,179,869,184, and at most 17,179,869,180 are possible; lower `data.batchSize`/,
  );
  t.regex(
    refusal(generationOf({}, {}, { idsMax: [1, 150_000_000] })),
    /^Ids of a batch on device 0, most of feature `item`: [\d,]+, and at most 2,147,483,647 are possible; .* `firstX`/,
  );
  t.regex(
    refusal(generationOf({ rows: 2 ** 30 })),
    /^Values of table `user` in one array on device \d: 17,179,869,184, and at most 4,294,967,295 .* `rowBlocks`/,
  );
  const cached = generationOf({ rows: 2 ** 30, rowBlocks: 1, tier: "cached" });
  t.regex(
    refusal(cached, {}, { ddrBytes: 2 ** 36 }),
    /^Bytes that `tiers.ddrBytes` gives to one table on device/,
  );
});

test("options that ask for more memory than is left are refused by name", (t) => {
  const { spec, layout, place } = generationOf({});
  const { tableBytes, otherBytes } = hostMemoryOf(spec.job, layout, place);
  const checkpoint = { ...spec.job.checkpoint, undoBytes: 1000 };
  const asking = { ...spec, job: { ...spec.job, checkpoint } };
  const left = (bytes: number) => () =>
    checkMemory(asking, layout, place as never, tableBytes + otherBytes + bytes);
  t.notThrows(left(1000));
  t.throws(left(999), {
    instanceOf: SizeExceededError,
    message:
      /^Bytes of host:0 that `checkpoint.undoBytes` .* ask for: 1,000, and at most 999 are possible/,
  });
});

test("a generation's shared memory is as predicted, and the memory left is divided", (t) => {
  const { spec, layout, laidOut, place } = generationOf({ tier: "cached" }, {}, { idsMax: [3, 9] });
  const replicas = new ReplicaCache(1e9);
  const input = { spec, laidOut, replicas, rows: new KeptRows() };
  const { tableBytes, otherBytes, parts } = hostMemoryOf(spec.job, layout, place);
  const left = 1e6;
  const memoryBytes = tableBytes + otherBytes + left;
  const network = { memoryBytes } as unknown as Parameters<typeof createWithin>[0]["network"];
  const { memory, leases } = createWithin({ ...input, network }, { ...place, position: 0 });
  const bytesIn = (of: Readonly<Record<number, SharedArrayBuffer>>) =>
    Object.values(of).reduce((sum, { byteLength }) => sum + byteLength, 0);
  const bytesOf = (what: RegExp) => parts.find((part) => what.test(part.what))?.bytes ?? 0;
  t.true(bytesOf(/unwritten/) > 0 && bytesIn(memory.saves) >= bytesOf(/unwritten/));
  t.true(bytesIn(memory.tiers) <= bytesOf(/cached/));
  const { exchangeShape, ringShape } = layout;
  const { bytes } = bufferMemoryOf(exchangeShape, ringShape, place);
  const batches = memory.exchange.byteLength + memory.ring.byteLength;
  // Each array begins on a cache line.
  t.true(Math.abs(batches - bytes) <= 64 * 4 * channelNames.length, `${batches}, ${bytes}`);
  const { undoBytes, pipeBytes, replicaBytes } = sharesOf(spec, layout, place, memoryBytes);
  t.deepEqual(
    leases.map(({ rows }) => rows.undoBytes),
    [undoBytes / 2, undoBytes / 2],
  );
  t.true(Object.values(memory.saves).every(({ byteLength }) => byteLength <= pipeBytes));
  t.is(memory.replicaBytes, replicaBytes);
  t.true(undoBytes > 0 && replicaBytes > 0);
  t.true(undoBytes + bytesIn(memory.saves) + replicaBytes <= left + 2 * 2 ** 16);
});

const measured = { samples: 1000, rows: 100_000, dim: 16 };

/** Bytes that devices have allocated after a step, and the prediction for the same job. */
async function measure(
  table: object,
  collect: () => Promise<void>,
  { undoBytes = 0, hbmBytes = 1e6 }: { undoBytes?: number; hbmBytes?: number } = {},
) {
  const { samples, rows, dim } = measured;
  const job = resolveJob({
    model: {
      kind: "dlrm",
      tables: [{ name: "a", rows, dim, ...table }],
      bottom: [64, dim],
      top: [64, 1],
    },
    data: { kind: "synthetic", samples, dense: 4, batchSize: samples },
    optimizer: { sparse: { kind: "rowWiseAdagrad" } },
    tiers: { hbmBytes, ddrBytes: 0 },
  });
  const bags = { idsMax: [40], idsMean: [8] };
  const { model, slices, tiers, optimizer, seed } = job;
  const input = { model, batchSize: samples, slices, tiers, ...bags };
  const topology = topologyOf(input, 2);
  const exchangeShape = exchangeShapeOf(topology);
  const tierRings = [0, 1].map((rank) => tierRingOf(topology, rank, optimizer.sparse));
  const shapes = { topology, exchangeShape, ringShape: ringShapeOf(topology), tierRings };
  const { tableBytes, parts } = hostMemoryOf(job, shapes, { first: 0, count: 2 });
  // These devices have neither a batch ring nor writers.
  const here = parts.filter(({ what }) => !what.startsWith("unwritten"));
  const ring = ringLayoutOf(shapes.ringShape).bytes;
  const predicted = here.reduce((sum, { bytes }) => sum + bytes, tableBytes + undoBytes - ring);
  const batch = randomBatch({ rows: [rows], idsMin: 0, idsMax: [16], dense: 4 }, 1, samples);
  const keepers = [0, 1].flatMap((rank) => {
    if (undoBytes === 0) return [];
    return new RowKeeper({
      given: [],
      at: initialCut,
      undoBytes: undoBytes / 2,
      name: `${rank}`,
      rank,
    });
  });
  await collect();
  const before = process.memoryUsage().arrayBuffers;
  const local = startLocalDevices({
    ...{ input, recipe: { optimizer, seed }, devices: 2, hasIncrements: true, keepers },
    kernels: () => openKernels("reference"),
  });
  for (let step = 0; step < 2; step++) await local.train(batch, step);
  await collect();
  const allocated = process.memoryUsage().arrayBuffers - before;
  return { allocated, predicted, share: allocated / predicted, local };
}

test.serial(
  "devices allocate the predicted memory for rows, cached rows and an undo log",
  async (t) => {
    setFlagsFromString("--expose-gc");
    const gc: () => void = runInNewContext("gc");
    // Memory of arrays is freed some turns after they were collected.
    const collect = async () => {
      for (let turn = 0; turn < 4; turn++) {
        gc();
        await new Promise(setImmediate);
      }
    };
    const sharding = { sharding: "row-wise", rowBlocks: 2 };
    const plain = await measure(sharding, collect);
    const cached = await measure({ ...sharding, tier: "cached" }, collect);
    const undone = await measure(sharding, collect, { undoBytes: 2e6 });
    for (const [name, { share, predicted }] of Object.entries({ plain, cached, undone })) {
      t.log(`${name}: ${(share * 100).toFixed(1)} % of the predicted ${predicted} bytes`);
      t.true(share > 0.7 && share < 1.02, `${name}: ${share} of ${predicted}`);
    }
  },
);

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
