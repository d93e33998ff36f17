// Promises with time bounds, in the virtual time of a simulated cluster, where no other load
// affects a bound: the deadlines are the defaults of Osiris, and a thread takes half a second to
// start. The same runs check the promises about models and samples against the reference run.

import test, { type ExecutionContext } from "ava";
import type { ClusterShape, SimulatedCluster } from "../../../chaos/simulation/cluster.ts";
import { jobs } from "../../../chaos/simulation/jobs.ts";
import { referenceOf } from "../../../chaos/simulation/simulate.ts";
import { type SimulatedFault, simulate } from "../../../internal.ts";
import { simulateHere, storyOf } from "../../helpers/simulated.ts";
import { isTestAll, someOrAll } from "../../helpers/thinned.ts";

/** 42 steps, with two readers. */
const job = 2;
const deadlineMs = jobs[job]?.stepDeadlineMs ?? 0;
/** Indices of jobs whose samples preprocessing workers make. */
const served = [13, 14];
/** The time of the injection: in mid-run. */
const atMs = 1500;

const shape: ClusterShape = {
  devices: [1, 1],
  speed: { turnMs: 5, startMs: 500 },
  delayMs: [0, 2],
};

/** A line of the trace: a client's event or a note, with the time since the fault. */
interface Line {
  readonly sinceMs: number;
  readonly text: string;
}

/** Runs a job under one fault; the job must end as its reference run does. */
async function runJob(
  t: ExecutionContext,
  fault: SimulatedFault,
  changes: Partial<ClusterShape> = {},
): Promise<readonly Line[]> {
  const verdict = await simulate({
    seed: 1,
    job,
    shape: { ...shape, ...changes },
    faultsMs: 100_000,
    faults: [fault],
  });
  t.is(verdict.failure, undefined, verdict.reason);
  t.is(verdict.injected[fault.kind], 1, "the fault was injected");
  return verdict.last.map((line) => {
    const [at = "", ...words] = line.split(" ");
    return { sinceMs: Number(at) - atMs, text: words.join(" ") };
  });
}

const after = (lines: readonly Line[], what: RegExp): Line | undefined =>
  lines.find(({ sinceMs, text }) => sinceMs > 0 && what.test(text));

test.serial("P1: the actor that a step waits for is named within two step deadlines", async (t) => {
  // The picked threads: a bridge, a device, and its two readers. Writers are not part of a step,
  // and have separate deadlines.
  for (const pick of someOrAll("threads that stand still", [3], [0, 2, 3, 4])) {
    const lines = await runJob(t, { kind: "thread.pause", atMs, forMs: 60_000, pick });
    const incident = after(lines, / run\.incident: /);
    t.regex(incident?.text ?? "", /: (device|host|reader|bridge):\d+: |: training: /);
    const moved = lines.findLast(
      ({ sinceMs, text }) =>
        sinceMs < (incident?.sinceMs ?? 0) && /run\.(progress|checkpointed|evaluated)/.test(text),
    );
    const stalledMs = (incident?.sinceMs ?? Number.POSITIVE_INFINITY) - (moved?.sinceMs ?? 0);
    t.true(stalledMs <= 2 * deadlineMs, `thread ${pick}: ${stalledMs} ms`);
  }
});

test.serial(
  "P2, P3: a dead process is noticed within 1 s, and steps are done again within 5 s",
  async (t) => {
    const lines = await runJob(t, { kind: "process.kill", atMs, pick: 1 });
    const noticedMs = after(lines, / run\.incident: /)?.sinceMs ?? Number.POSITIVE_INFINITY;
    t.true(noticedMs <= 1000, `${noticedMs} ms`);
    const goingOnMs = after(lines, / run\.recovered/)?.sinceMs ?? Number.POSITIVE_INFINITY;
    t.true(goingOnMs <= 5000, `${goingOnMs} ms`);
    t.log(`noticed after ${noticedMs} ms, going on after ${goingOnMs} ms`);
  },
);

test.serial("P3: the loss of a thread costs less than 5 s", async (t) => {
  for (const pick of someOrAll("threads that are lost", [2], [0, 1, 2])) {
    const lines = await runJob(t, { kind: "thread.kill", atMs, pick });
    const goingOnMs = after(lines, / run\.(recovered|finished)/)?.sinceMs ?? Infinity;
    t.true(goingOnMs <= 5000, `thread ${pick}: ${goingOnMs} ms`);
  }
});

test.serial("P8: zombies commit nothing: their training steps are discarded", async (t) => {
  const seeds = someOrAll("seeds of zombies", [1, 2], [1, 2, 3, 4, 5, 6]);
  const { failures, faults } = await simulateHere(seeds, ["process.zombie"]);
  t.deepEqual(failures, []);
  t.true((faults["process.zombie"] ?? 0) > seeds.length);
});

test.serial(
  "P9: a lost leader takes its master along: the next leader's master continues",
  async (t) => {
    const leading = { ...shape, leaseMs: 2500 };
    const kill = { kind: "process.kill", atMs, pick: 0 } as const;
    for (const job of someOrAll("jobs of a master", served.slice(0, 1), served)) {
      const verdict = await simulate({
        seed: 1,
        job,
        shape: leading,
        faultsMs: 100_000,
        faults: [kill],
      });
      t.is(verdict.failure, undefined, verdict.reason);
      t.is(verdict.terms, 2, "another process leads");
      const news = verdict.last.filter((line) => line.includes(" run.workers"));
      const generations = new Set(news.map((line) => / receives \S+ (\d+) /.exec(line)?.[1]));
      t.true(generations.size > 1, "the masters of both generations reported workers");
    }
  },
);

/** The numbers of a run's events, in the order in which the client received them. */
const numbersOf = (lines: readonly Line[]) =>
  lines.flatMap(({ text }) => {
    const [, seq] = /client receives \S+ \d+ (\d+) run\./.exec(text) ?? [];
    return seq === undefined ? [] : Number(seq);
  });

test.serial(
  "P9: when the leader is lost, another leads within 5 s, no step is lost, and no event number",
  async (t) => {
    const kill = { kind: "process.kill", atMs, pick: 0 } as const;
    const lines = await runJob(t, kill, { leaseMs: 2500 });
    const leadsMs =
      after(lines, / is elected leader, in term 2/)?.sinceMs ?? Number.POSITIVE_INFINITY;
    t.true(leadsMs <= 5000, `${leadsMs} ms`);
    const killed = numbersOf(lines);
    t.true(killed.length > 10);
    t.deepEqual(
      killed,
      killed.map((_, at) => at + (killed[0] ?? 0)),
    );
  },
);

test.serial("a power failure leaves one gap in event numbers, which is reported", async (t) => {
  const power = { kind: "power", atMs, operations: 1 } as const;
  const lines = await runJob(t, power, { leaseMs: 2500 });
  t.is(lines.filter(({ text }) => text.includes("run.renumbered")).length, 1);
  const lost = numbersOf(lines);
  const jumps = lost.filter((seq, at) => at > 0 && seq !== (lost[at - 1] ?? 0) + 1);
  t.is(jumps.length, 1, "the numbers jump only once");
});

test.serial("P10: if the broker is away for 60 s, the job pauses and continues", async (t) => {
  const lines = await runJob(t, { kind: "broker.restart", atMs, forMs: 60_000 });
  const finishedMs = after(lines, / run\.finished/)?.sinceMs ?? 0;
  t.true(finishedMs > 60_000);
  t.true(finishedMs < 60_000 + 30_000, `${finishedMs} ms`);
  t.is(after(lines, /client repeats/), undefined, "the client still follows the run");
});

test.serial(
  "P6: a flipped bit of the data cache costs a restore at most: the cache is made again",
  async (t) => {
    const flips = [0, 1, 2].map((pick) => ({ kind: "disk.flip", atMs, pick, bit: 9000 }) as const);
    const told: string[] = [];
    for (const flip of flips) {
      if (told.length > 0 && !isTestAll) break; // The flipped bit was in the cache.
      const faults: SimulatedFault[] = [flip, { kind: "process.kill", atMs: atMs + 1, pick: 1 }];
      const verdict = await simulate({ seed: 1, job, shape, faultsMs: 100_000, faults });
      t.is(verdict.failure, undefined, verdict.reason);
      t.is(verdict.injected["disk.flip"], 1);
      told.push(...verdict.last.filter((line) => / run\.cache/.test(line)));
    }
    t.true(told.length > 0, "one of the flipped files is a data cache");
  },
);

/** Runs a job under several faults; the job must end as its reference run does. */
async function runUnder(
  t: ExecutionContext,
  faults: readonly SimulatedFault[],
  changes: Partial<ClusterShape> = {},
): Promise<readonly string[]> {
  const scenario = { seed: 1, job, shape: { ...shape, ...changes }, faultsMs: 100_000, faults };
  const verdict = await simulate(scenario);
  t.is(verdict.failure, undefined, verdict.reason);
  for (const { kind } of faults) t.true((verdict.injected[kind] ?? 0) > 0, `${kind} was injected`);
  return verdict.last;
}

const three = [0, 1, 1, 1];

test.serial(
  "P4, P6: hosts are killed one after the other, and all at once: the same model",
  async (t) => {
    const oneByOne = [1, 2, 3].map((pick, i) => {
      return { kind: "process.kill", atMs: atMs + 4000 * i, pick } as const;
    });
    await runUnder(t, oneByOne, { devices: three });
    const allAtOnce = [1, 2, 3].map((pick) => ({ kind: "process.kill", atMs, pick }) as const);
    await runUnder(t, allAtOnce, { devices: three });
  },
);

test.serial(
  "P2, P6: a run continues without a stalled or unreachable host, which serves again later",
  async (t) => {
    const kinds = ["process.pause", "partition", "broker.cut"] as const;
    for (const kind of someOrAll("silent hosts", kinds.slice(0, 2), kinds)) {
      const fault = { kind, atMs, forMs: 6000, pick: 1 } as const;
      const lines = await runUnder(t, [fault], { devices: [1, 1] });
      t.true(
        lines.some((line) => line.includes(" run.recovered")),
        kind,
      );
    }
  },
);

test.serial(
  "P6: if the leader is killed while a shard is to move, it moves under the next leader",
  async (t) => {
    const breakIt = (cluster: SimulatedCluster) => {
      cluster.ask("run.move", async (run) => {
        await run.moveShard(0, { device: 1 });
        cluster.kill(0);
      });
    };
    const reference = await referenceOf(0);
    const own = { devices: [0, 1, 1], leaseMs: 2500, breakIt, reference };
    const { events, terms } = await storyOf(0, own);
    t.is(terms, 2, "another process leads");
    const started = events.flatMap((event) => (event.type === "run.started" ? [event] : []));
    t.is(started[0]?.pins?.length ?? 0, 0);
    t.like(started.at(-1)?.pins, [{ device: 1, isFrozen: false }]);
  },
);

test.serial(
  "P6: a lost host's state is restored from its buddy's memory, not from the store",
  async (t) => {
    const breakIt = (cluster: SimulatedCluster) => cluster.kill(1);
    const reference = await referenceOf(0);
    const { events } = await storyOf(0, { devices: three, at: "run.buddies", breakIt, reference });
    const [recovered] = events.filter((event) => event.type === "run.recovered");
    t.like(recovered, { storeBytes: 0 });
    t.true(recovered?.type === "run.recovered" && recovered.memoryBytes > 0);
  },
);

test.serial("a reader that hangs may be drained, which does not count as a failure", async (t) => {
  // The last thread of each host is its reader.
  const faults = [
    { kind: "thread.pause", atMs, forMs: 60_000, pick: 3 },
    { kind: "run.drain", atMs: atMs + 5, reader: 0 },
  ] as const;
  const lines = await runUnder(t, faults);
  t.true(lines.some((line) => line.includes(" run.drained")));
});

test.serial("a rate limit of the readers outlives killed readers and devices", async (t) => {
  const limited = { devices: [2], speed: { turnMs: 4, startMs: 1 }, delayMs: [0, 0.1] } as const;
  const faults: SimulatedFault[] = [{ kind: "run.rate", atMs: 20, times: 5 }];
  for (let pick = 0; pick < 5; pick++) {
    faults.push({ kind: "thread.kill", atMs: 200 + 100 * pick, pick });
  }
  const scenario = { seed: 1, job: 0, shape: limited, faultsMs: 1000, faults };
  const { failure, reason, virtualMs, injected, generations } = await simulate(scenario);
  t.is(failure, undefined, reason);
  t.is(injected["thread.kill"], 5);
  t.true(generations > 1);
  // 360 samples, 80 a second; the first batches were made before the limit.
  t.true(virtualMs > 3000, `over in ${virtualMs} ms`);
});
