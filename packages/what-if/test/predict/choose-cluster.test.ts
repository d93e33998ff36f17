// The cheapest cluster within a budget and a deadline, and the notation of numbers of hosts.

import test from "ava";
import type { Prediction } from "../../model.ts";
import { chooseCluster, type Offer } from "../../predict/choose-cluster.ts";
import { hostCountsFrom } from "../../predict/host-counts.ts";

/** An offer of hosts that train so many samples a second together; `hourly`: price of a host. */
function offer(hardware: string, hosts: number, samplesPerSecond: number, hourly?: number): Offer {
  const goodput = 0.5;
  const hours = (hosts * 1e9) / (samplesPerSecond * goodput) / 3600;
  const price = hourly === undefined ? {} : { price: hours * hourly };
  const prediction = { samplesPerSecond, goodput, ...price } as Prediction;
  return { hardware, hosts, prediction };
}

// 3.6e9 samples at a goodput of one half: an hour at two million a second.
const samples = 3.6e9;
const offers = [
  offer("slow", 1, 1e6, 10), // two hours, 20
  offer("slow", 2, 1.6e6, 10), // 1.25 hours, 25
  offer("fast", 1, 2e6, 30), // an hour, 30
  offer("fast", 2, 4e6, 30), // half an hour, 30
  offer("unpriced", 1, 9e6),
  { hardware: "small", hosts: 1, prediction: "The job does not fit" },
];

test("the cheapest cluster is chosen that meets the budget and the deadline", (t) => {
  const chosen = (wanted: { budget?: number; deadline?: number }) => {
    const { chosen: one } = chooseCluster(offers, { samples, ...wanted });
    return one && `${one.hardware} ${one.hosts}`;
  };
  t.is(chosen({}), "slow 1");
  t.is(chosen({ deadline: 1.5 * 3600 }), "slow 2");
  t.is(chosen({ deadline: 3600 }), "fast 2"); // Of equal prices, the faster one.
  t.is(chosen({ deadline: 3600, budget: 29 }), undefined);
  t.is(chosen({ budget: 24 }), "slow 1");
});

test("the line of a rejected cluster has its excess over the limits, or what is missing", (t) => {
  const { offers: assessed } = chooseCluster(offers, { samples, budget: 20.5, deadline: 3700 });
  t.deepEqual(
    assessed.map(({ fails }) => fails),
    [
      ["takes 1.95 times the deadline"],
      ["costs 1.22 times the budget", "takes 1.22 times the deadline"],
      ["costs 1.46 times the budget"],
      ["costs 1.46 times the budget"],
      ["its hardware file has no `host.pricePerHour`"],
      ["The job does not fit"],
    ],
  );
  t.is(assessed[1]?.seconds, 4500);
  t.is(Math.round(assessed[1]?.price ?? 0), 25);
});

test("a list of host counts with an ellipsis continues as it begins", (t) => {
  t.deepEqual(hostCountsFrom("16"), [16]);
  t.deepEqual(hostCountsFrom("4, 2,2"), [2, 4]);
  t.deepEqual(hostCountsFrom("1,2,4...16"), [1, 2, 4, 8, 16]);
  t.deepEqual(hostCountsFrom("1,2,4…16"), [1, 2, 4, 8, 16]);
  t.deepEqual(hostCountsFrom("2,5...11"), [2, 5, 8, 11]);
  t.deepEqual(hostCountsFrom("3...6"), [3, 4, 5, 6]);
  for (const wrong of ["", "0", "-1", "1,x", "1.5", "4,2...8", "1,2...15", "1...1000", "1..."]) {
    t.is(hostCountsFrom(wrong), undefined, wrong);
  }
});

test("a cluster whose failures leave no time to train is never chosen", (t) => {
  const { prediction, ...rest } = offer("frail", 1, 1000, 10);
  const frail = { ...rest, prediction: { ...(prediction as Prediction), goodput: 0 } };
  const { chosen, offers } = chooseCluster([frail], { samples: 1e9 });
  t.is(chosen, undefined);
  t.deepEqual(offers[0]?.fails, ["fails before it trains anything"]);
});
