// Simulated steps against closed forms: Neo's equations of a step (arXiv 2104.05158), definitions
// of bus bandwidth, queues by hand. Equal devices are simulated once, with the times of each.

import test from "ava";
import { chromeTrace, type StepFacts, stepGraph, stepTasks } from "../../../../internal.ts";
import { EventQueue } from "../../engine/events.ts";
import { SharedResource } from "../../engine/shared-resource.ts";
import { type SimulateOptions, simulateSteps } from "../../engine/simulate-steps.ts";
import { timelinesOf } from "../../engine/timelines.ts";
import type { DeviceCosts, Hardware, StepCostsOfCluster } from "../../model.ts";

const none: StepFacts["stale"] = { hasVectors: false, hasRows: false, hasHostSums: false };
const fresh: StepFacts["fresh"] = { ...none, hasVectors: true };

/** A job with vectors alone, and one bucket of gradients for each part of the backward pass. */
function factsOf(own: Partial<StepFacts> = {}): StepFacts {
  return {
    ...{ depth: 3, prefetch: 0, isStale: false, isAhead: false, fresh, stale: none },
    ...{ hasBagLengths: false, hasReplicas: false, hasHostSums: false, hasRowGradients: false },
    ...{ rowSums: 0, buckets: { backwardLate: 1, backwardEarly: 1 } },
    statistics: { forwardEarly: 0, forwardLate: 0, backwardLate: 0, backwardEarly: 0 },
    ...own,
  };
}

type Seconds = Readonly<Partial<Record<keyof DeviceCosts["tasks"], number>>>;
type Bytes = Readonly<Partial<Record<keyof DeviceCosts["sent"], number>>>;

const noMemory = { device: 0, host: 0, disk: 0 };

/** Costs of devices that send and receive equally many bytes. */
function costsFor(
  ranks: readonly number[],
  tasks: Seconds,
  bytes: Bytes = {},
  way: "inside" | "across" = "inside",
): DeviceCosts {
  const flow = Object.fromEntries(
    Object.entries(bytes).map(([channel, own]) => [channel, { inside: 0, across: 0, [way]: own }]),
  );
  const seconds = Object.entries(tasks).map(([name, own]) => [name, { seconds: own }]);
  return {
    ...{ ranks, sent: flow, received: flow, memory: noMemory, memoryThere: noMemory },
    tasks: Object.fromEntries(seconds),
  };
}

function clusterCosts(
  classes: readonly DeviceCosts[],
  own: Partial<StepCostsOfCluster> = {},
): StepCostsOfCluster {
  const perHost = classes.flatMap(({ ranks }) => ranks).length;
  const reading = { seconds: 1e-9, readers: 1 };
  return { hosts: 1, perHost, classes, serverHosts: 0, reading, ...own };
}

const shares = { allToAllShare: 1, allReduceShare: 1 };
const link = { latency: 0, bandwidth: 1, ...shares, isHostLink: false };

/** Machines whose links move one byte a second. */
function machines(
  host: Partial<Hardware["host"]> = {},
  links: Partial<Pick<Hardware, "scaleUp" | "scaleOut">> = {},
): Hardware {
  return {
    ...{ name: "test", host, device: {}, scaleUp: link, ...links },
    scaleOut: { ...link, isShared: false, ...links.scaleOut },
  } as unknown as Hardware; // A part of a machine: the engine reads only these fields.
}

const near = (t: { true(is: boolean, message?: string): unknown }, a: number, b: number) =>
  t.true(Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b)), `${a}, expected ${b}`);

test("a step with streams takes as long as Neo's two equations say", (t) => {
  const [top, topBack] = [4, 8];
  for (const { isExact, bottom, lookup, allToAll, update, bottomBack } of [
    // The layers are longer both ways.
    { isExact: true, bottom: 5, lookup: 3, allToAll: 1, update: 2, bottomBack: 9 },
    // Rows and their exchange are longer both ways.
    { isExact: true, bottom: 2, lookup: 3, allToAll: 4, update: 7, bottomBack: 5 },
    // Otherwise the next lookup, or the next bottom layers, begin before the last step has ended.
    { isExact: false, bottom: 1, lookup: 3, allToAll: 4, update: 2, bottomBack: 9 },
    { isExact: false, bottom: 9, lookup: 3, allToAll: 1, update: 7, bottomBack: 2 },
  ]) {
    const tasks: Seconds = {
      ...{ forwardEarly: bottom, lookup, forwardLate: top, backwardLate: topBack },
      ...{ backwardEarly: bottomBack, updateRows: update },
    };
    const bytes = { pooled: allToAll, dPooled: allToAll };
    const costs = clusterCosts([costsFor([0, 1], tasks, bytes)]);
    const { step, exposed } = simulateSteps(factsOf(), costs, machines(), { streams: true });
    const forward = Math.max(bottom, lookup + allToAll) + top;
    const backward = topBack + Math.max(allToAll + update, bottomBack);
    if (isExact) {
      near(t, step, forward + backward);
      // Exposed: the time in which no stream has work.
      near(t, exposed.pooled ?? 0, bottom > lookup ? 0 : allToAll);
      near(t, exposed.dPooled ?? 0, 0);
    } else t.true(step < forward + backward && step >= top + topBack, `${step}`);
  }
});

test("a device of Osiris does one task at a time, so tasks and waits add up to the step", (t) => {
  const tasks: Seconds = { forwardEarly: 5, lookup: 3, forwardLate: 4, backwardLate: 8 };
  const costs = clusterCosts([costsFor([0, 1], tasks, { ids: 1, pooled: 12, gradients: 3 })]);
  const { step, byTask, exposed, inFlight, hidden } = simulateSteps(factsOf(), costs, machines());
  // Vectors leave while they are looked up and while the early layers run: 3 + 5 of 12 bytes. Then
  // the next step's ids share the link.
  near(t, exposed.pooled ?? 0, 4 + 1);
  near(t, exposed.gradients ?? 0, 3);
  near(t, step, 5 + 3 + 5 + 4 + 8 + 3);
  const sum = [...Object.values(byTask), ...Object.values(exposed)].reduce((a, b) => a + b, 0);
  near(t, sum, step);
  for (const [channel, flight] of [
    ["ids", 2],
    ["pooled", 13],
    ["gradients", 3],
  ] as const) {
    near(t, (inFlight[channel] ?? 0) + (hidden[channel] ?? 0), flight);
  }
});

test("depth 2 hides the reading of the next batch, depth 3 also the exchange of its ids", (t) => {
  const costs = clusterCosts([costsFor([0, 1], { forwardLate: 10, ids: 1 }, { ids: 4 })], {
    reading: { seconds: 6, readers: 1 },
  });
  const stepAt = (depth: 1 | 2 | 3) => simulateSteps(factsOf({ depth }), costs, machines()).step;
  near(t, stepAt(1), 6 + 1 + 4 + 10);
  near(t, stepAt(2), 1 + 4 + 10);
  near(t, stepAt(3), 1 + 10);
});

test("if readers are too slow, a step takes as long as they need for a batch", (t) => {
  // Three readers fill all three slots at once, and one of them waits until a device has a batch.
  for (const [readers, seconds] of [
    [1, 10],
    [2, 10 / 2],
    [3, (10 + 3) / 3],
  ] as const) {
    const costs = clusterCosts([costsFor([0], { forwardLate: 3 })], {
      reading: { seconds: 10, readers },
    });
    const { step, busy } = simulateSteps(factsOf(), costs, machines());
    near(t, step, seconds);
    near(t, busy.readers ?? 0, 10 / readers);
  }
});

test("stale vectors travel during the update, and prefetched rows arrive in time", (t) => {
  const stale = factsOf({ isStale: true, fresh: none, stale: fresh });
  const tasks: Seconds = { lookupAhead: 1, updateRows: 6, forwardLate: 2 };
  const costs = clusterCosts([costsFor([0, 1], tasks, { stalePooled: 6, dPooled: 1 })]);
  const { step, exposed } = simulateSteps(stale, costs, machines());
  near(t, exposed.pooled ?? 0, 0);
  t.true(step < 1 + 6 + 2 + 1 + 1e-9);
  const cached = (prefetch: number) => {
    const own = costsFor([0], { forwardLate: 8 });
    const cold = { ...own, tasks: { ...own.tasks, tiers: { seconds: 0, shared: { disk: 5 } } } };
    return simulateSteps(factsOf({ prefetch }), clusterCosts([cold]), machines()).step;
  };
  near(t, cached(0), 13);
  near(t, cached(2), 8);
});

test("the tiers' thread, and threads that move bytes of links, take cores from devices", (t) => {
  const stepOn = (cores: number, prefetch: number) => {
    const own = costsFor([0], { forwardLate: 8 });
    const cold = { ...own, tasks: { ...own.tasks, tiers: { seconds: 0, behind: 5 } } };
    const on = machines({ cores });
    return simulateSteps(factsOf({ prefetch }), clusterCosts([cold]), on).step;
  };
  near(t, stepOn(2, 0), 13);
  near(t, stepOn(2, 2), 8);
  near(t, stepOn(1, 2), 13);
  const classes = [costsFor([0, 1], {}, { pooled: 6 }, "across")];
  const costs = clusterCosts(classes, { hosts: 2, perHost: 1 });
  const waited = (own: Partial<Hardware["scaleOut"]>) => {
    const on = machines({ cores: 1 }, { scaleOut: { ...link, isShared: true, ...own } });
    return simulateSteps(factsOf(), costs, on).exposed.pooled ?? 0;
  };
  near(t, waited({}), 6);
  near(t, waited({ coreBandwidth: 1 }), 6 + 6); // Bytes that leave, and bytes that arrive.
});

test("two cores are shared by their jobs: a queue by hand", (t) => {
  const queue = new EventQueue();
  const cores = new SharedResource(queue, 2);
  const ends: number[] = [];
  const done = () => void ends.push(queue.now);
  const at = (time: number, ...jobs: readonly number[]) =>
    queue.at(
      time,
      () => {
        for (const seconds of jobs) cores.add(seconds, 1, done, undefined);
      },
      undefined,
    );
  at(0, 2); // A core of its own until second 1, then two thirds of one, and a half from 2 on.
  at(1, 3, 3);
  at(2, 1);
  queue.run(() => false);
  t.is(ends.length, 4);
  for (const [i, end] of [2 + 2 / 3, 3 + 2 / 3, 5, 5].entries()) near(t, ends[i] ?? 0, end);
  near(t, cores.busy(), 0.5 + 4);
  const costs = clusterCosts([costsFor([0, 1, 2], { forwardLate: 4 })]);
  near(t, simulateSteps(factsOf(), costs, machines({ cores: 2 })).step, 6);
  near(t, simulateSteps(factsOf(), costs, machines({ cores: 4 })).step, 4);
});

test("an all-reduce has the bus bandwidth of its link, and buckets hide behind the pass", (t) => {
  const [n, bytes] = [4, 12];
  const sent = (2 * (n - 1) * bytes) / n; // A ring's bytes.
  const ranks = [0, 1, 2, 3];
  const up = { ...link, allReduceShare: 0.5, latency: 0.25 };
  const hardware = machines({}, { scaleUp: up });
  const stepOf = (tasks: Seconds, buckets: StepFacts["buckets"]) =>
    simulateSteps(
      factsOf({ buckets }),
      clusterCosts([costsFor(ranks, tasks, { gradients: sent })]),
      hardware,
    );
  const { inFlight, hidden } = stepOf({}, { backwardLate: 0, backwardEarly: 1 });
  const flight = (inFlight.gradients ?? 0) + (hidden.gradients ?? 0);
  const seconds = flight - 2 * 2 * 0.25; // Up and down a tree of four.
  near(t, (bytes / seconds) * ((2 * (n - 1)) / n), 0.5);
  // Three of the four buckets are done before the end of the pass.
  const piped = stepOf({ backwardLate: 1000 }, { backwardLate: 4, backwardEarly: 0 });
  // The wait for dPooled, of three messages, comes first.
  near(t, piped.exposed.gradients ?? 0, seconds / 4 + 1 - 3 * 0.25);
});

/** Pieces queue at the link inside a host, at the link between hosts, and inside again. */
function pieceByPiece(pieces: number, inside: number, across: number): number {
  const free = { inside: 0, across: 0 };
  const pass = (at: "inside" | "across", from: number, seconds: number) => {
    free[at] = Math.max(free[at], from) + seconds;
    return free[at];
  };
  const near = inside / 2 / pieces; // Half before, half after.
  const all = Array.from({ length: pieces }, () => pass("inside", 0, near));
  const ends = all.map((from) => pass("inside", pass("across", from, across / pieces), near));
  return Math.max(...ends);
}

test("buckets of an all-reduce stream through both links, as pieces that queue by hand", (t) => {
  const mebibyte = 2 ** 20;
  const ranks = [0, 1, 2, 3];
  const flightOf = (vector: number, speeds: { up: number; out: number }, buckets: number) => {
    const [inside, across] = [vector, vector / 2]; // Sent by each of 2 devices on 2 hosts.
    const own = costsFor(ranks, {});
    const gradients = { gradients: { inside, across } };
    const costs = clusterCosts([{ ...own, sent: gradients, received: gradients }], {
      ...{ hosts: 2, perHost: 2 },
    });
    const scaleUp = { ...link, bandwidth: speeds.up };
    const scaleOut = { ...link, bandwidth: speeds.out, isShared: false };
    const facts = factsOf({ buckets: { backwardLate: buckets, backwardEarly: 0 } });
    const { inFlight, hidden } = simulateSteps(facts, costs, machines({}, { scaleUp, scaleOut }));
    return (inFlight.gradients ?? 0) + (hidden.gradients ?? 0);
  };
  const vector = 256 * mebibyte; // 64 pieces.
  for (const speeds of [
    { up: 400 * mebibyte, out: 40 * mebibyte },
    { up: 100 * mebibyte, out: 40 * mebibyte },
    { up: 60 * mebibyte, out: 80 * mebibyte },
  ]) {
    const [inside, across] = [vector / speeds.up, vector / 2 / speeds.out];
    const byHand = pieceByPiece(64, inside, across);
    for (const buckets of [1, 4]) {
      const found = flightOf(vector, speeds, buckets);
      const piece = (inside + across) / 64;
      t.true(Math.abs(found - byHand) <= piece, `${found}, by hand ${byHand}`);
    }
  }
  // A vector of one piece takes one link after the other.
  const speeds = { up: mebibyte, out: mebibyte };
  near(t, flightOf(mebibyte, speeds, 1), 1 + 1 / 2);
});

test("a link that a host shares is divided among its devices", (t) => {
  const classes = [costsFor([0, 1, 2, 3], {}, { pooled: 6, losses: 1 }, "across")];
  const costs = clusterCosts(classes, { hosts: 2, perHost: 2 });
  const out = { ...link, latency: 0.5 };
  const own = machines({}, { scaleOut: { ...out, isShared: false } });
  const shared = machines({}, { scaleOut: { ...out, isShared: true } });
  // A message to each of two other devices, one after the other; of losses one to the other host.
  near(t, simulateSteps(factsOf(), costs, own).exposed.pooled ?? 0, 6 + 2 * 0.5);
  near(t, simulateSteps(factsOf(), costs, shared).exposed.pooled ?? 0, 12 + 2 * 0.5);
  const { inFlight, hidden } = simulateSteps(factsOf(), costs, own);
  near(t, (inFlight.losses ?? 0) + (hidden.losses ?? 0), 1 + 0.5);
});

test("all devices wait for the slowest one, and the step's report is about that device", (t) => {
  const costs = clusterCosts([costsFor([0, 2, 3], { lookup: 1 }), costsFor([1], { lookup: 4 })]);
  const { step, rank, byTask, exposed } = simulateSteps(factsOf(), costs, machines());
  near(t, step, 4);
  t.is(rank, 1);
  near(t, byTask.lookup ?? 0, 4);
  near(t, exposed.pooled ?? 0, 0);
});

test("a checkpoint is captured between two steps, and written during the next ones", (t) => {
  const own = costsFor([0], { forwardLate: 10, checkpoint: 3 });
  const checkpoint = { seconds: 3, shared: { disk: 15 } };
  const costs = clusterCosts([{ ...own, tasks: { ...own.tasks, checkpoint } }]);
  const stepAt = (checkpointEvery: number) =>
    simulateSteps(factsOf(), costs, machines(), { checkpointEvery }).step;
  near(t, stepAt(4), 10 + 3 / 4);
  near(t, stepAt(1), 15 + 3); // The next checkpoint waits for the disk.
  t.throws(() => stepAt(65), { message: /65 steps: 64 at most/ });
});

/** Sixteen devices on four hosts, of three classes that are mixed on hosts in two ways. */
function mixed(): StepCostsOfCluster {
  const classOf = (rank: number) => (rank < 8 ? [0, 1, 0, 2] : [1, 1, 2, 0])[rank % 4];
  const all = Array.from({ length: 16 }, (_, rank) => rank);
  const classes = [0, 1, 2].map((at) => {
    const third = 1 / 3 + at / 7;
    const tasks = Object.fromEntries(stepTasks.map((name, i) => [name, third * (1 + (i % 5))]));
    const bytes = { ids: 1.1, pooled: 3.3, dPooled: 2.7 + at, gradients: 5.7, losses: 0.1 };
    const own = costsFor(
      all.filter((rank) => classOf(rank) === at),
      tasks,
      bytes,
      "across",
    );
    const tiers = { seconds: 0.1, shared: { hostMemory: 0.7 + at / 3, disk: 1.3, hostLink: 0.9 } };
    return { ...own, tasks: { ...own.tasks, tiers } };
  });
  return clusterCosts(classes, { hosts: 4, perHost: 4, reading: { seconds: 0.7, readers: 2 } });
}

test("equal devices are simulated once, with times that are equal to the last bit", (t) => {
  const jobs: Partial<StepFacts>[] = [
    ...[{}, { prefetch: 2 }, { isStale: true, stale: fresh }],
    { depth: 1 }, // A host's first device asks for batches, whatever its class.
  ];
  for (const own of jobs) {
    for (const streams of [false, true]) {
      const out = { ...link, latency: 0.01, isShared: !streams };
      const hardware = machines(streams ? {} : { cores: 3 }, { scaleOut: out });
      const run = (more: SimulateOptions) =>
        simulateSteps(factsOf(own), mixed(), hardware, { streams, traced: 0, ...more });
      const { simulated, ...merged } = run({ checkpointEvery: 2 });
      const { simulated: all, ...apart } = run({ checkpointEvery: 2, merge: false });
      t.deepEqual(merged, apart);
      t.deepEqual([simulated.devices, all.devices], [6, 16]);
      t.true(merged.step > 0);
    }
  }
});

test("the number of events per device does not grow with the number of different devices", (t) => {
  const perDevice = (devices: number) => {
    const classes = Array.from({ length: devices }, (_, rank) =>
      costsFor(
        [rank],
        { lookup: 1 + rank / 1e5, forwardLate: 3 },
        { pooled: 2, gradients: 1 },
        "across",
      ),
    );
    const costs = clusterCosts(classes, { hosts: devices / 8, perHost: 8 });
    return simulateSteps(factsOf(), costs, machines()).simulated.events / devices;
  };
  const [few, many] = [perDevice(64), perDevice(512)];
  t.true(many < 1.1 * few, `${many} events of a device, ${few} with an eighth of them`);
  const alike = clusterCosts(
    [
      costsFor(
        Array.from({ length: 4096 }, (_, rank) => rank),
        {},
      ),
    ],
    {
      ...{ hosts: 512, perHost: 8 },
    },
  );
  t.is(simulateSteps(factsOf(), alike, machines()).simulated.devices, 1);
});

test("the timeline of a simulated step has the format of a run's trace, with its tasks", (t) => {
  const tasks = Object.fromEntries(stepTasks.map((name) => [name, 1]));
  const classes = [costsFor([0, 1, 2, 3], tasks, { pooled: 3, dPooled: 3 }, "across")];
  const costs = clusterCosts(classes, { hosts: 2, perHost: 2 });
  const steps = simulateSteps(factsOf(), costs, machines(), { merge: false });
  const text = [...chromeTrace(timelinesOf(steps, 2))].join("");
  const events = JSON.parse(text) as { ph: string; cat?: string; name: string; dur?: number }[];
  const names = new Set(events.flatMap(({ cat, name }) => (cat === "task" ? name : [])));
  for (const { name } of stepGraph(factsOf())) t.true(names.has(name) || name === "tiers", name);
  t.true(events.some(({ cat, name }) => cat === "landed" && name === "pooled"));
  t.true(events.every(({ dur = 0 }) => dur >= 0));
  t.throws(() => simulateSteps(factsOf(), clusterCosts([costsFor([1], {})]), machines()), {
    message: "Device 0 has no costs",
  });
});
