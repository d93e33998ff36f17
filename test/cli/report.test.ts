// Reports of a run for people, in the cases that the tests of the commands do not cover.

import test from "ava";
import { memoryCheck } from "../../actors/doctor/doctor-machine.ts";
import { bytes, shortTime } from "../../cli/support/format.ts";
import { incidentLines } from "../../cli/views/incidents.ts";
import { lossCurve, reportOf, tiersOf, timeOf } from "../../cli/views/report.ts";
import { linesView, sparkline } from "../../cli/views/run-view.ts";
import { type IncidentRecord, type RunEvent, type RunResult, resolveJob } from "../../internal.ts";

const result: RunResult = {
  run: "r1",
  status: "finished",
  alreadyFinished: false,
  step: 43,
  digest: "sha256:00",
  history: [],
  repairedIds: [],
  warnings: [],
  incidents: [],
  directory: "checkpoints",
  manifest: "",
  generation: 1,
  samplesPerSecond: 0,
  arithmetic: "reference",
};
const repairedIds = [
  { table: "user", ids: 1204 },
  { table: "item", ids: 3 },
];

test("repaired ids are reported by table, if there are any", (t) => {
  t.false(reportOf(result).some((line) => line.startsWith("Repaired")));
  t.true(
    reportOf({ ...result, repairedIds }).includes(
      "Repaired ids         1,204 of `user`, 3 of `item`",
    ),
  );
});

test("warnings are the last lines of a report, one sentence each", (t) => {
  t.false(reportOf(result).some((line) => line.startsWith("Warning")));
  const warnings = [
    { code: "MODEL_DIVERGED", message: "The model has diverged." },
    { code: "FEATURE_PREDICTS_LABEL", message: "Column `paid` predicts the label." },
  ];
  t.deepEqual(reportOf({ ...result, warnings }).slice(-2), [
    "Warning              The model has diverged.",
    "Warning              Column `paid` predicts the label.",
  ]);
});

test("a report has the last and the best evaluation, and how to keep or get the best model", (t) => {
  const of = (step: number, auc: number) => {
    const rest = {
      samples: 10,
      positives: 4,
      logLoss: 0.5,
      normalizedEntropy: 0.9,
      calibration: 1,
    };
    return { step, evaluation: { auc, ...rest } };
  };
  const linesOf = (best: ReturnType<typeof of>, manifest?: string) =>
    reportOf({
      ...result,
      evaluations: { last: of(4000, 0.6591), best: { metric: "auc", ...best, manifest } },
    }).filter((line) => /^(Last|Best) evaluation/.test(line));
  t.deepEqual(linesOf(of(1200, 0.6956)), [
    "Last evaluation      step 4,000: AUC 0.6591",
    "Best evaluation      step 1,200: AUC 0.6956 (not kept: `evaluation.keepBest: auc` keeps it)",
  ]);
  t.deepEqual(linesOf(of(1200, 0.6956), "ab").slice(1), [
    "Best evaluation      step 1,200: AUC 0.6956 (kept: `--manifest best` of eval, predict and table takes it)",
  ]);
  t.deepEqual(linesOf(of(4000, 0.6591)).slice(1), ["Best evaluation      step 4,000: AUC 0.6591"]);
});

test("a report of an already finished run says that nothing was trained, and how to train more", (t) => {
  t.deepEqual(reportOf({ ...result, alreadyFinished: true }).slice(1, 3), [
    "Already finished, from checkpoints (step 43): nothing was trained.",
    "More `data.epochs` train on; another `checkpoint.directory` starts over.",
  ]);
});

test("a report says how tables were placed, and what the plan is based on", (t) => {
  const placed = (plan: RunResult["plan"]) =>
    reportOf({ ...result, plan }).filter((line) => line.startsWith("Tables "));
  t.deepEqual(placed(undefined), []);
  t.deepEqual(placed({ by: "as-written" }), []);
  const plan = {
    by: "auto" as const,
    schemes: { "table-wise": 3, "row-wise": 1 },
    stepSeconds: 0.0012,
    imbalance: 1.0512,
    memoryBytes: [2e6, 3e6],
    constants: "this machine",
    statistics: true,
  };
  const what =
    "Tables               by a plan for these devices: 3 table-wise, 1 row-wise; predicted: a step " +
    "1.20 ms, the busiest device 1.05 x the mean, 3.00 MB a device at most; from: ids ";
  t.deepEqual(placed(plan), [`${what}as counted in the data, this machine`]);
  const note = "some tables have rows below memory";
  t.deepEqual(placed({ ...plan, statistics: false, note }), [
    `${what}as assumed, not counted, this machine`,
    `Tables               ${note}`,
  ]);
  const { stepSeconds: _, ...unmeasured } = plan;
  t.regex(
    placed(unmeasured)[0] ?? "",
    /1 row-wise; predicted: the busiest device 1\.05 x the mean/,
  );
  t.deepEqual(placed({ by: "as-written", note: "it took too long" }), [
    "Tables               it took too long",
  ]);
});

test("rows read late are reported by table, if tables are stale", (t) => {
  t.false(reportOf(result).some((line) => line.startsWith("Rows read late")));
  const staleness = { freshSteps: 6, tables: [{ table: "user", rows: 1204 }] };
  t.true(
    reportOf({ ...result, staleness }).includes(
      "Rows read late       1,204 of `user`; 6 steps read only fresh rows",
    ),
  );
});

test("admitted, evicted and dropped dynamic ids are reported by table", (t) => {
  t.false(reportOf(result).some((line) => line.startsWith("Dynamic ids")));
  const counts = { admitted: 5204, evicted: 1200, dropped: 31, rows: 5000, rowsUsed: 4004 };
  const dynamicIds = [{ table: "user", ...counts }];
  t.true(
    reportOf({ ...result, dynamicIds }).includes(
      "Dynamic ids          `user`: 5,204 admitted, 1,200 evicted, 31 lookups dropped; " +
        "4,004 of 5,000 rows in use",
    ),
  );
});

test("the shares of accesses from HBM, DDR and SSD are reported, with the SSD's store", (t) => {
  const tiers = { rows: 1204.4, hbm: 0.5, ddr: 0.3, ssd: 0.2, conflicts: 0 };
  const line = "1,204: 50.0 % from HBM, 30.0 % from DDR, 20.0 % from SSD";
  t.is(tiersOf(tiers), line);
  t.is(tiersOf(tiers, ["file", "rocksdb"]), `${line} (file, rocksdb)`);
});

test("the gain of one more GiB of cache is reported by table, the largest gain first", (t) => {
  t.false(reportOf(result).some((line) => line.startsWith("Cached tables")));
  const now = { hbmBytes: 2e6, ddrBytes: 8e6, hbm: 0.5, ddr: 0.3, ssd: 0.2 };
  const of = (table: string, hbm: number) => {
    const [moreHbm, moreDdr] = [
      { ...now, hbm },
      { ...now, ssd: 0.15 },
    ];
    return { table, accesses: 100, rowBytes: 40, curve: [], now, moreHbm, moreDdr };
  };
  const lines = reportOf({ ...result, tiers: [of("user", 0.6), of("item", 0.72)] });
  const first = lines.findIndex((line) => line.startsWith("Cached tables"));
  t.deepEqual(lines.slice(first + 2, first + 4), [
    "  item                    2.00 MB      50.0 %      72.0 %     8.00 MB      20.0 %      15.0 %",
    "  user                    2.00 MB      50.0 %      60.0 %     8.00 MB      20.0 %      15.0 %",
  ]);
  const many = Array.from({ length: 15 }, (_, i) => of(`T${i}`, 0.5));
  t.true(reportOf({ ...result, tiers: many }).includes("  3 more tables, which would gain less"));
});

test("progress lines show repaired ids, too", (t) => {
  const lines: string[] = [];
  const view = linesView((line) => lines.push(line));
  const place = { seq: 0, run: "r1", generation: 1, type: "run.progress" as const };
  const event: RunEvent = {
    ...place,
    step: 1,
    steps: 4,
    loss: 1,
    samplesPerSecond: 8,
    repairedIds: [],
  };
  view.show(event);
  view.show({ ...event, step: 2, repairedIds });
  t.is(lines.length, 2);
  t.notRegex(lines[0] ?? "", /repaired/);
  t.regex(lines[1] ?? "", / left · repaired ids: 1,204 of `user`, 3 of `item`$/);
});

test("the remaining time is that of the event, even for a view that starts late", (t) => {
  const lines: string[] = [];
  const view = linesView((line) => lines.push(line));
  const times = { steps: 3, stepMs: 250, readMs: 1, batchesThere: 1, shares: {} as never };
  const place = { seq: 900, run: "r1", generation: 1, type: "run.progress" as const };
  const figures = { loss: 1, samplesPerSecond: 8, repairedIds: [] };
  view.show({ ...place, ...figures, step: 1000, steps: 1400, secondsLeft: 100, times });
  t.regex(lines[0] ?? "", / · 100 s left · /);
});

test("the shares of a step's time are printed in step order, without shares below a limit", (t) => {
  const waits = { ids: 0.01, pooled: 0.03, dPooled: 0.06, rowSums: 0, gradients: 0.2, losses: 0 };
  const distinct = { rows: 0, dRows: 0, partials: 0, dPartials: 0, tiers: 0, checkpoint: 0 };
  const shares = { computing: 0.6, sendingIds: 0.02, batch: 0.08, ...waits, ...distinct };
  const times = { steps: 3, stepMs: 12.345, readMs: 1, batchesThere: 1, shares };
  const sentence =
    "12.3 ms: 60 % computing, 8 % waiting for batches, 6 % for gradients of vectors, " +
    "20 % for dense gradients";
  t.is(timeOf(times), sentence);
  t.true(reportOf({ ...result, times }).includes(`Time of a step       ${sentence}`));
  const exchange = {
    exposed: 0.3,
    inFlight: 0.2,
    hidden: 0.25,
    hiddenBy: { ids: 0.2, losses: 0.01 },
  };
  const communication =
    "Communication        exposed 30.0 % of a step (20.0 % with bytes in flight), hidden 25.0 % (by channel 20.0 % for ids)";
  t.true(reportOf({ ...result, times: { ...times, exchange } }).includes(communication));
});

test("the time of a warm step is reported beside that of all steps, if it is known", (t) => {
  const times = { steps: 3, stepMs: 12, readMs: 1, batchesThere: 1, shares: {} as never };
  const compiled = (of: RunResult) => reportOf(of).filter((line) => /once compiled/.test(line));
  t.deepEqual(compiled({ ...result, times }), []);
  t.deepEqual(
    compiled({ ...result, times: { ...times, warm: { steps: 1234.5, stepMs: 0.5271 } } }),
    ["Step once compiled   0.527 ms, without checkpoints: the last 1,235 steps"],
  );
});

test("large numbers have no exponent", (t) => {
  t.deepEqual([999_400, 999_700, 4.2e18].map(bytes), ["999 kB", "1.00 MB", "4,200 PB"]);
  const times = [0.9994e-3, 0.9996e-3, 0.9996, 1234].map(shortTime);
  t.deepEqual(times, ["999 us", "1.00 ms", "1.00 s", "1,230 s"]);
  const shares = { computing: 1 } as Parameters<typeof timeOf>[0]["shares"];
  t.regex(timeOf({ steps: 1, stepMs: 1500, shares, batchesThere: 1, readMs: 1 }), /^1,500 ms: /);
  const tables = [{ name: "a", rows: 2 ** 30, dim: 1024 }];
  const model = { kind: "dlrm" as const, tables, bottom: [1024], top: [1] };
  const job = resolveJob({ model, data: { kind: "synthetic", samples: 8, batchSize: 8 } });
  t.regex(memoryCheck(job, 1).found, /^[4-9],\d\d0 GiB at most/);
});

test("an incident is printed as first cause, consequences, actions and outcome", (t) => {
  const error = { name: "E", code: "STEP_TIMEOUT", recovery: "restore", message: "m" } as const;
  const incident: IncidentRecord = {
    ...{ incident: 2, generation: 3, at: "2026-11-22T11:00:00.000Z", offender: "device:1" },
    ...{ supervisor: "host:0", context: "device.run to step 20", error, step: 17 },
    ...{ batch: { pass: 0, index: 17 }, noticedBy: "device:0" },
    waits: [{ waiter: "device:0", awaited: "device:1", what: "vectors of device 1", forMs: 400 }],
    followed: [{ actor: "bridge:1", code: "PEER_LOST", message: "gone", afterMs: 10 }],
    actions: [{ by: "job:r1", did: "restarts the run after 50 ms", afterMs: 20 }],
    end: { how: "restored", generation: 4, step: 10, afterMs: 620 },
  };
  t.deepEqual(incidentLines(incident), [
    "Incident 2, 2026-11-22T11:00:00.000Z: device:1 failed in generation 3, after step 17, " +
      "at batch 17 of epoch 0, doing: device.run to step 20, noticed by device:0",
    "   STEP_TIMEOUT: m",
    "   device:0 had waited 0.40 s for vectors of device 1 (device:1)",
    "   +0.01 s  bridge:1 failed by it: gone",
    "   +0.02 s  job:r1 restarts the run after 50 ms",
    "   restored at generation 4, step 10, after 0.62 s",
  ]);
  const [first] = incidentLines({ ...incident, offender: "leader", generation: 0 });
  t.regex(first ?? "", /: leader failed after step 17, at batch 17/, "no generation failed");
});

test("a curve is scaled to the available columns, from the lowest block to the highest", (t) => {
  t.is(sparkline([8, 7, 6, 5, 4, 3, 2, 1], 16), "█▇▆▅▄▃▂▁");
  t.is(
    sparkline(
      Array.from({ length: 1600 }, (_, at) => at),
      8,
    ),
    "▁▂▃▄▅▆▇█",
  );
  t.is(sparkline([1, 1, 1], 4), "▁▁▁");
  t.is(sparkline([Number.NaN, 2], 4), "");
});

test("the bars of the loss begin at 0, and the header has their maximum", (t) => {
  const points = [0.8, 0.4, 0.2].map((trainLoss, i) => ({ step: 10 * (i + 1), trainLoss }));
  const [head, ...lines] = lossCurve(points as Parameters<typeof lossCurve>[0]);
  t.is(head, `     step    loss  0${"0.8000".padStart(31)}`);
  t.deepEqual(
    lines.map((line) => line.replace(/[^█]/g, "").length),
    [32, 16, 8],
  );
  t.is(lines[0]?.indexOf("█"), head?.indexOf("0"));
});
