// Whole trials: real processes, real threads, a schedule, a reference run, and a verdict that must
// also be able to fail a trial.

import { existsSync } from "node:fs";
import { checkSchedule } from "../../../chaos/faults/schedule.ts";
import { type FaultedRun, runSchedule } from "../../../chaos/trials/faulted-run.ts";
import { verdictOf } from "../../../chaos/trials/verdict.ts";
import {
  type ChaosOptions,
  chaos,
  type JobOptions,
  PromiseBrokenError,
  type RunResult,
} from "../../../internal.ts";
import { smallData, smallModel, smallSteps } from "../../helpers/clusters/clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

const job = (seed = 0): JobOptions => ({
  model: smallModel,
  data: smallData,
  evaluation: { everySteps: 15 },
  checkpoint: { everySteps: 10, directory: "unused" },
  stepDeadlineMs: 5000,
  seed,
});

testIf(testAll).serial(
  "after deaths of thread, process and broker a run equals its reference; verdicts can fail",
  async (t) => {
    const reference = await chaos(job()).reference();
    const schedule = checkSchedule({
      version: 1,
      environment: { devices: 2, hosts: 0 },
      faults: [
        { what: "kill", where: "thread:device:1", when: { step: 12 } },
        { what: "broker-kill", when: { step: 17 }, deadlines: 0.02 },
        { what: "kill", where: "process:leader", when: { step: 25 } },
        { what: "kill", where: "thread:device:0", when: { step: 0, during: "recovery" } },
        { what: "exception", where: "actor:coordinator:0", when: { step: 35 } },
      ],
    });
    using faulted = await runSchedule(job(), schedule);
    const verdictOn = (run: FaultedRun, against = reference) =>
      verdictOf(job(), schedule, run, against);
    const trial = await verdictOn(faulted);
    t.deepEqual(trial.differences, []);
    t.is(trial.verdict, "equal");
    t.is(faulted.result?.digest, reference.result.digest);
    t.true(faulted.faults.every(({ injected }) => injected));
    t.deepEqual(
      faulted.faults.slice(0, 3).map(({ step }) => step),
      [12, 17, 25],
      "each fault at its step",
    );
    t.is(faulted.submissions, 2, "submitted again, as the list of runs was lost");
    t.deepEqual(trial.ledger, [{ samples: 2700, once: 2700, never: 0, twice: 0 }]);
    t.is(trial.committedStepsLost, 0);
    t.is(trial.recoveries[0]?.offender, "device:1", "first cause first");
    t.false(existsSync("unused"), "the job's own directory is not used");

    // The verdict reports a model that differs from the reference run's, with tables, blocks and
    // steps.
    const [name = "", ...names] = reference.leaves.keys();
    const leaves = new Map([
      [name, "another"],
      ...names.map((one) => [one, reference.leaves.get(one) ?? ""] as const),
    ]);
    const [first, ...points] = reference.result.history;
    const history = [{ ...first, trainLoss: 0 }, ...points] as RunResult["history"];
    const other = { ...reference.result, digest: "sha256:00", history };
    const wrong = await verdictOn(faulted, { ...reference, leaves, result: other });
    t.is(wrong.verdict, "safety");
    const text = wrong.differences.join("\n");
    t.regex(text, /^The digest of the model is sha256:\w+, of the reference run sha256:00$/m);
    t.true(text.includes(`The bits of ${name} differ`), text);
    t.regex(text, /^Losses or metrics differ from step 10 on$/m);
    // A silent run does not pass as ended, nor does a run that leaves a fault active.
    const silent = await verdictOn({ ...faulted, end: "stuck", result: undefined });
    t.is(silent.verdict, "liveness");
    t.is((await verdictOn({ ...faulted, alive: ["a frame fault"] })).verdict, "harness");
  },
);

testIf(testAll).serial("shards move and freeze between two deaths: the same model", async (t) => {
  const trial = await chaos({ ...job(), sharding: "as-written" })
    .moveShard(0, { device: 1 })
    .at({ step: 8 })
    .kill("device:1")
    .at({ step: 16 })
    .freezeShard(1)
    .at({ step: 22 })
    .moveShard(0, { device: 0 })
    .at({ step: 26 })
    .kill("leader")
    .at({ step: 32 })
    .verify();
  t.is(trial.digest, trial.referenceDigest);
  t.true(trial.faults.every(({ injected }) => injected));
  t.true(trial.generations >= 4, `${trial.generations} generations: two moves, two deaths`);
});

testIf(testAll).serial(
  "readers are drained and limited between two deaths: the model is the same",
  async (t) => {
    const trial = await chaos({ ...job(), readers: 2 })
      .limitReaders(2000, { deadlines: 0.2 })
      .at({ step: 6 })
      .drainReader(1)
      .at({ step: 10 })
      .kill("device:1")
      .at({ step: 16 })
      .drainReader(0)
      .at({ step: 26 })
      .kill("leader")
      .at({ step: 32 })
      .verify();
    t.is(trial.digest, trial.referenceDigest);
    t.true(trial.faults.every(({ injected }) => injected));
  },
);

testIf(testAll).serial(
  "a loss that is not finite fails a run; submitted again, it equals its reference run",
  async (t) => {
    const trial = await chaos(job()).nan("device:1").at({ step: 22 }).verify();
    t.is(trial.submissions, 2);
    t.deepEqual(
      trial.incidents.map(({ reason }) => reason.code),
      ["NON_FINITE_LOSS"],
    );
  },
);

testIf(testAll).serial(
  "a bit that flipped on disk is found by its reader, and the damaged file is skipped",
  async (t) => {
    const trial = await chaos(job())
      .disk("writer:0")
      .flippedBit()
      .at({ step: 12, during: "checkpoint" })
      .kill("device:1")
      .at({ step: 23, during: "checkpoint" })
      .verify();
    t.true(trial.faults.every(({ injected }) => injected));
    t.deepEqual(
      trial.incidents.map(({ reason }) => reason.code),
      ["PEER_LOST", "CHECKPOINT_CORRUPT"],
    );
    t.is(trial.submissions, 1, "the run recovers without a second submission");
    t.is(trial.committedStepsLost, 10, "the damaged checkpoint had these steps");
  },
);

testIf(testAll).serial("a fault that could not be injected says why", async (t) => {
  const trial = await chaos(job())
    .kill("tier:0")
    .at({ step: 3 })
    .kill("device:0")
    .at({ step: smallSteps + 1 })
    .kill("device:1")
    .at({ step: 0, during: "recovery" })
    .verify();
  t.deepEqual(
    trial.faults.map(({ whyNot }) => whyNot),
    [
      "thread:tier:0 did not reach that point of a step, or did not run",
      "the run ended before that step",
      "no restore followed an earlier fault",
    ],
  );
});

/** The error that `verify` throws for a trial with these options. */
async function broken(t: { is: (a: unknown, b: unknown) => void }, options: ChaosOptions) {
  try {
    await chaos(job()).slow("device:1", { steps: 2 }).at({ step: 5 }).verify(options);
  } catch (error) {
    if (error instanceof PromiseBrokenError) return error;
    throw error;
  }
  t.is("no error", "PROMISE_BROKEN");
  throw new TypeError("unreachable");
}

testIf(testAll).serial(
  "a run that reports nothing within the patience does not pass as ended",
  async (t) => {
    const error = await broken(t, { reference: await chaos(job()).reference(), patienceMs: 1 });
    t.is(error.code, "PROMISE_BROKEN");
    t.is(error.verdict, "liveness");
  },
);
