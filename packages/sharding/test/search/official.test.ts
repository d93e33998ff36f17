// The shipped cost networks on the official tasks: the plans behind the bench's figures.

import test from "ava";
import { dataFile, testIf } from "../../../../test/helpers/needs.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { publishedHome } from "../../bench/published.ts";
import { shardingRows } from "../../bench/sharding.bench.ts";
import { readCostNetworks } from "../../files/cost-networks-file.ts";

testIf(dataFile("sharding/tables856.json.gz"))(
  "on official tasks, every search beats the best greedy plan by at least 15 %",
  (t) => {
    const rows = shardingRows(4, {
      data: publishedHome,
      tasks: rounds("official tasks", 2, 6),
      memory: 4,
    });
    const figures = new Map(rows.map(({ name, figure }) => [name, figure]));
    t.is(figures.get("sharding.4.valid"), 100);
    t.true((figures.get("sharding.4.below") ?? 0) >= 15);
    const [cost = 0, published = 0, whole = 0] = ["cost", "published", "whole"].map((row) => {
      return figures.get(`sharding.4.${row}`);
    });
    t.true(cost <= published && published < whole);
  },
);

test("the shipped networks state their origin and their test error", (t) => {
  for (const [devices, testMseMax] of [
    [4, 2600],
    [8, 20_000],
    [16, 60_000],
  ] as const) {
    const path = `packages/sharding/bench/networks/cpu-${devices}.safetensors`;
    const { networks, provenance } = readCostNetworks(path);
    t.is(networks.devices, devices);
    t.is(networks.lateMax, 18);
    t.regex(provenance.source ?? "", /csharding @0e5d60fa/);
    t.regex(provenance.command ?? "", /train-networks\.js --devices/);
    const { compute } = JSON.parse(provenance.reports ?? "{}");
    t.regex(compute.digest, /^sha256:/);
    t.true(compute.testMse <= testMseMax);
  }
});
