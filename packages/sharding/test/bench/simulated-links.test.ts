// Exchanges over simulated links, against their definition.

import test from "ava";
import { drawnNetworks, drawnTables } from "../../../../test/helpers/cost-networks.ts";
import { overLinks } from "../../bench/simulated-links.ts";
import { backwardCosts, forwardCosts, setCost } from "../../search/cost-networks.ts";

test("a device's link is busy for the larger of its sent and received bytes", (t) => {
  const measured = drawnNetworks(2, 1);
  const bytesPerSecond = 1e6;
  for (const columns of [
    [64, 0, 0, 0],
    [128, 32, 64, 4],
    [10, 10, 10, 10],
  ]) {
    const networks = overLinks(measured, 4, { bytesPerSecond });
    // 64 samples, 16 per device.
    const all = columns.reduce((sum, own) => sum + own, 0);
    const expected = columns.map((own) => {
      const [sent, received] = [3 * own * 16 * 4, (all - own) * 16 * 4];
      return (1000 * Math.max(sent, received)) / bytesPerSecond;
    });
    const late = [5, 0, 3, 1];
    for (const is of [backwardCosts(networks, columns), forwardCosts(networks, columns, late)]) {
      for (const [device, ms] of expected.entries()) {
        t.true(Math.abs((is[device] ?? 0) - ms) < 1e-5 * ms, `${columns}: ${is}, not ${expected}`);
      }
    }
    const tables = drawnTables(3, 1);
    t.is(setCost(networks, tables), setCost(measured, tables));
  }
});
