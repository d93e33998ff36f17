// The autoscaler's control law in virtual time: a trainer takes splits at a changing rate; workers
// make them at their own rate, start late and die. From 30 s after a change of the demand the
// number of workers is within 1 of the number that the demand needs, and the trainer waits for
// less than 1% of the time; the number changes its direction at most once.

import test from "ava";
import { Autoscaler, intervalMs } from "../../../../actors/threads/preprocessing/autoscaler.ts";
import { RandomStream } from "../../../../src/ports/random.ts";

/** Simulates a service in steps of 50 ms, with fractions of splits: the law sees only shares. */
function simulate(seed: number) {
  const stream = new RandomStream(seed, 91, 1);
  const tickMs = 50;
  const perWorker = 2 + 6 * stream.uniform(); // Splits per second.
  const most = 24;
  const demandOf = () => perWorker * (0.5 + 17 * stream.uniform());
  const scaler = new Autoscaler({ least: 1, most, atMs: 0 });
  const capacity = 16 + stream.below(32);
  const phaseMs = 150_000;
  const phases = [demandOf(), demandOf(), demandOf()];
  let workers: number[] = [0]; // The start time of each.
  let [buffered, busyMs, stalledMs] = [0, 0, 0];
  const found: { demand: number; counts: number[]; stalledMs: number }[] = [];
  for (const [phase, demand] of phases.entries()) {
    const here = { demand: demand / perWorker, counts: [] as number[], stalledMs: 0 };
    found.push(here);
    for (let ms = 0; ms < phaseMs; ms += tickMs) {
      const nowMs = phase * phaseMs + ms;
      const live = workers.filter((since) => since <= nowMs);
      // The workers' speed varies from step to step.
      const rate = perWorker * (0.85 + 0.3 * stream.uniform());
      const can = (live.length * rate * tickMs) / 1000;
      const made = Math.min(can, capacity - buffered + (demand * tickMs) / 1000);
      busyMs += live.length === 0 ? 0 : (tickMs * made) / can;
      const wanted = (demand * tickMs) / 1000;
      const taken = Math.min(wanted, buffered + made);
      const waitMs = tickMs * (1 - taken / wanted);
      stalledMs += waitMs;
      if (ms > 30_000) here.stalledMs += waitMs;
      buffered = Math.min(capacity, buffered + made - taken);
      if (stream.below(2400) === 0 && live.length > 1) workers = workers.slice(1); // A worker dies.
      if (nowMs % intervalMs !== 0 || nowMs === 0) continue;
      const load = {
        atMs: nowMs,
        workers: live.length,
        busy: busyMs / intervalMs,
        stalled: stalledMs / intervalMs,
        buffered: buffered / capacity,
        isWanted: buffered < capacity,
      };
      [busyMs, stalledMs] = [0, 0];
      const count = scaler.decide(load);
      here.counts.push(count);
      // A worker takes a second to start; surplus workers drain at once.
      while (workers.length < count) workers.push(nowMs + 1000);
      workers = workers.slice(0, count);
    }
  }
  return { found, phaseMs };
}

for (const least of [0, 50]) {
  test(`from seed ${least} on, 50 seeds: the workers match the demand; no stall, no oscillation`, (t) => {
    for (let seed = least; seed < least + 50; seed++) {
      const { found, phaseMs } = simulate(seed);
      for (const [phase, { demand, counts, stalledMs }] of found.entries()) {
        const about = `seed ${seed}, phase ${phase}, demand ${demand.toFixed(2)}: ${counts.join(" ")}`;
        const settled = counts.slice(30);
        const wanted = Math.ceil(demand);
        t.true(
          settled.every((count) => Math.abs(count - wanted) <= 1),
          about,
        );
        t.true(stalledMs / (phaseMs - 30_000) < 0.01, `${about}; stalled ${stalledMs} ms`);
        const turns = counts.flatMap(
          (count, i) => Math.sign(count - (counts[i - 1] ?? count)) || [],
        );
        const changes = turns.filter((turn, i) => i > 0 && turn !== turns[i - 1]).length;
        t.true(changes <= 1, about);
      }
    }
  });
}

test("the autoscaler keeps its limits, and without a worker starts one if splits are wanted", (t) => {
  const scaler = new Autoscaler({ least: 0, most: 2, atMs: 0 });
  const idle = { workers: 0, busy: 0, stalled: 0, buffered: 1, isWanted: false };
  t.is(scaler.decide({ ...idle, atMs: 1000 }), 0);
  t.is(scaler.decide({ ...idle, atMs: 2000, buffered: 0, isWanted: true }), 1);
  const starving = { workers: 1, busy: 1, stalled: 0.9, buffered: 0, isWanted: true };
  t.is(scaler.decide({ ...starving, atMs: 3000 }), 1, "the first worker has just started");
  t.is(scaler.decide({ ...starving, atMs: 8000 }), 2);
  t.is(scaler.decide({ ...starving, workers: 2, atMs: 20_000 }), 2, "no more than `most`");
  t.is(scaler.wanted, 2);
});
