// Tier counters of a device: it counts rows on their arrival, as the backing store counts hits;
// no time window then has a row's hit without the row.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { meterWords, timesBetween, waitedFor } from "../../../src/training/meters/step-meter.ts";
import { tierCountsOf } from "../../../src/training/step/prefetch.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";

const samples = 40;

test("prefetched rows are counted on arrival, like those of the backing store", async (t) => {
  const tables = [{ name: "T", rows: 4000, dim: 4, tier: "cached" }];
  const model = modelOptions.parse({ kind: "dlrm", dense: 1, tables, bottom: [4], top: [1] });
  const tiers = tiersOptions.parse({ hbmBytes: 30 * 600, prefetch: 2 });
  const optimizer = optimizerOf({ kind: "sgd" }, { kind: "rowWiseAdagrad" });
  const input = { model, batchSize: samples, slices: 8, idsMax: [1], tiers };
  const recipe = { optimizer, seed: 3 };
  const local = startLocalDevices({ input, recipe, devices: 1, kernels: createReference });
  const [device] = local.states;
  if (device === undefined) throw new TypeError("no device");
  const bagsOf = (batch: number) => ({
    tables: 1,
    samples,
    offsets: Int32Array.from({ length: samples + 1 }, (_, at) => at),
    ids: Int32Array.from({ length: samples }, (_, at) => 7 * (batch * samples + at)),
  });
  const counted = () => tierCountsOf(device) ?? t.fail("the device has no tiers");
  const ahead = [];
  for (let batch = 0; batch < 3; batch++) ahead.push(await device.slab.stage(bagsOf(batch)));
  t.like(counted(), { rows: 0, missed: 0 });
  for (const [batch, staged] of ahead.entries()) {
    await device.slab.arrive(staged);
    const rows = (batch + 1) * samples;
    t.like(counted(), { rows, missed: rows });
    t.is(device.backing?.counts.requested, rows);
    await device.slab.release(staged);
  }
});

test("a reading between two counter writes of a step makes no tier share negative", (t) => {
  const words = (rows: number, missed: number, hits: number) => {
    const own = Array.from({ length: meterWords }, () => 0);
    own[0] = rows / 10;
    own[2] = rows;
    own.splice(4 + waitedFor.length, 3, rows, missed, hits);
    return { devices: [own], reading: [] };
  };
  // The first reading came between the writes of a step's missed rows and of its hits.
  const { tiers } = timesBetween([{ from: words(100, 50, 20), to: words(200, 60, 60) }]) ?? {};
  t.deepEqual([tiers?.hbm, tiers?.ddr, tiers?.ssd], [0.9, 0.1, 0]);
  const torn = timesBetween([{ from: words(100, 0, 0), to: words(200, 150, 10) }])?.tiers;
  t.deepEqual([torn?.hbm, torn?.ddr, torn?.ssd], [0, 0.1, 0.9]);
});
