// The watch over the input pipeline: when a run raises an alert that devices wait for batches.

import test from "ava";
import {
  afterPublishing,
  assess,
  emptyWatch,
  type PipelineWatch,
  recentSpeed,
  timesOfAll,
  withSample,
} from "../../../../actors/run/state/pipeline-watch.ts";
import { type HostMeters, meterWords } from "../../../../src/training/meters/step-meter.ts";

const job = (depth: 1 | 2 | 3, readers = 2) => ({ pipeline: { depth }, readers });

/**
 * The meters of a host with one device after `steps` steps of `stepMs` each; `there`: batches ready
 * at each step.
 */
function hostAfter(
  steps: number,
  { stepMs = 10, batchMs = 0, there = 1, readMs = 4 } = {},
  from: HostMeters = { devices: [[]], reading: [0, 0] },
): HostMeters {
  const add = [steps, there * steps, 1000 * stepMs * steps, 0, 1000 * batchMs * steps];
  const before = from.devices[0] ?? [];
  const words = Array.from({ length: meterWords }, (_, at) => (before[at] ?? 0) + (add[at] ?? 0));
  const [batches = 0, micros = 0] = from.reading;
  return { devices: [words], reading: [batches + steps, micros + 1000 * readMs * steps] };
}

/** Assesses samples of host 0 in order; returns the sentences of the alerts. */
function sentences(samples: readonly HostMeters[], of = job(3)): (string | undefined)[] {
  let watch: PipelineWatch = emptyWatch;
  return samples.map((sample) => {
    const assessed = assess(withSample(watch, 0, sample), 0, of);
    watch = assessed.watch;
    return assessed.alert?.message;
  });
}

test("devices that wait for readers raise one alert, and another one only after a recovery", (t) => {
  const slow = { batchMs: 6, there: 0.5, readMs: 10 };
  const samples = [hostAfter(299, slow)]; // Less than three seconds.
  for (const how of [slow, slow, {}, slow]) {
    samples.push(hostAfter(400, how, samples.at(-1)));
  }
  const sentence =
    "Devices of host 0 waited for batches in 60 % of 7 s: " +
    "a reader takes 10 ms for a batch, the rest of a step 4.0 ms; set `readers: 3` instead of 2";
  t.deepEqual(sentences(samples), [
    undefined,
    sentence,
    undefined,
    undefined,
    sentence.replace("7 s", "4 s"),
  ]);
});

test("the alert names the number of readers that would keep up, or a deeper pipeline at depth 1", (t) => {
  const slow = hostAfter(400, { batchMs: 9, readMs: 4.5 });
  t.regex(sentences([slow])[0] ?? "", /; set `readers: 5` instead of 2$/);
  t.regex(sentences([slow], job(3, 7))[0] ?? "", /; set `readers: 8` instead of 7$/);
  t.regex(sentences([slow], job(3, 16))[0] ?? "", /use a faster disk or a smaller batch$/);
  t.regex(sentences([slow], job(1))[0] ?? "", /nothing is read .*: set `pipeline.depth: 3`$/);
});

test("a pipeline that never had a batch ready raises an alert, even if the waits are short", (t) => {
  const never = hostAfter(400, { batchMs: 1, there: 0 });
  t.regex(sentences([never])[0] ?? "", /waited for batches in 10 % of 4 s/);
  t.deepEqual(sentences([never], job(1)), [undefined]);
  t.deepEqual(sentences([hostAfter(7, { stepMs: 1000, batchMs: 1, there: 0 })]), [undefined]);
});

test("each host's waits are assessed separately", (t) => {
  const slow = hostAfter(400, { batchMs: 9 });
  const first = assess(withSample(emptyWatch, 1, slow), 1, job(3));
  t.regex(first.alert?.message ?? "", /^Devices of host 1 /);
  const second = assess(withSample(first.watch, 0, hostAfter(400)), 0, job(3));
  t.is(second.alert, undefined);
  const again = assess(
    withSample(second.watch, 1, hostAfter(400, { batchMs: 9 }, slow)),
    1,
    job(3),
  );
  t.is(again.alert, undefined);
});

test("the reported speed is the average of the last ten seconds, not of the generation", (t) => {
  const start = { step: 100, atMs: 5000 };
  let watch = emptyWatch;
  let step = start.step;
  const speeds: number[] = [];
  const tell = (atMs: number, steps: number) => {
    step += steps;
    speeds.push(recentSpeed(watch, start, { step, atMs }));
    watch = afterPublishing(watch, { step, atMs });
  };
  tell(5000, 0);
  for (let second = 1; second <= 60; second++) tell(5000 + 1000 * second, 50);
  t.deepEqual([...new Set(speeds)], [0, 50]);
  for (let second = 61; second <= 70; second++) tell(5000 + 1000 * second, 10);
  t.is(speeds.at(-1), 10);
  t.is(watch.speedSamples.length, 11);
  tell(5000 + 170_000, 20); // One step takes longer than that.
  t.is(speeds.at(-1), 0.2);
});

test("the time of a warm step is known one second after a warm-up of three seconds", (t) => {
  const cold = hostAfter(150, { stepMs: 20 }); // Three seconds of warm-up: programs compile.
  const short = hostAfter(100, { stepMs: 8 }, cold);
  const long = hostAfter(400, { stepMs: 8 }, cold);
  // A checkpoint of 1.6 s between these steps does not count as step time.
  const checkpoint = meterWords - 5;
  const [words = []] = long.devices;
  const cut = words.map((word, at) => word + (at === 2 || at === checkpoint ? 1_600_000 : 0));
  const warmAfter = (...samples: HostMeters[]) => {
    const watch = samples.reduce((so, sample) => withSample(so, 0, sample), emptyWatch);
    const warm = timesOfAll(watch)?.warm;
    return warm && { steps: warm.steps, stepMs: Number(warm.stepMs.toFixed(6)) };
  };
  t.is(timesOfAll(emptyWatch), undefined);
  t.is(warmAfter(cold), undefined);
  t.is(warmAfter(cold, short), undefined);
  t.deepEqual(warmAfter(hostAfter(100, { stepMs: 20 }), cold, long), { steps: 400, stepMs: 8 });
  t.deepEqual(warmAfter(cold, { ...long, devices: [cut] }), { steps: 400, stepMs: 8 });
  const all = [cold, long].reduce((so, sample) => withSample(so, 0, sample), emptyWatch);
  t.is(timesOfAll(all)?.steps, 550);
  // With a second host that was not observed for as long, there is no figure for all hosts.
  t.is(timesOfAll(withSample(all, 1, hostAfter(10)))?.warm, undefined);
});
