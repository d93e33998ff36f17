// Models with several tasks: their shapes, their losses, and jobs that are refused.

import test from "ava";
import { resolveJob } from "../../src/job/job.ts";
import { lossTermsOf } from "../../src/model/loss.ts";
import { graphOf } from "../../src/model/model.ts";
import { modelOptions } from "../../src/model/options.ts";
import { evaluate, evaluateScores } from "../../src/training/loop/metrics.ts";

const tables = [
  { name: "a", rows: 10, dim: 4 },
  { name: "b", rows: 10, dim: 6 },
];
const tasks = [{ name: "label", tower: [3], weight: 2 }, { name: "label2" }];
const common = { dense: 5, tables, tasks }; // 15 input columns.

/** The count of parameter elements of each part: `experts`, `gates.0`. */
function parametersOf(model: object): Record<string, number> {
  const { layout } = graphOf(modelOptions.parse({ ...common, ...model }));
  const counts: Record<string, number> = {};
  for (const { name, length } of layout.parameters) {
    const part = name.split(".").slice(0, -2).join(".");
    counts[part] = (counts[part] ?? 0) + length;
  }
  return counts;
}

const towers = (inputs: number) => ({
  "towers.0": 3 * (inputs + 1) + 4,
  "towers.1": inputs + 1,
});

test("a shared bottom, MMoE and PLE have the parameters of their layers", (t) => {
  t.deepEqual(parametersOf({ kind: "sharedBottom", shared: [8, 7] }), {
    shared: 8 * 16 + 7 * 9,
    ...towers(7),
  });
  const mmoe = { kind: "mmoe", experts: 2, expert: [8], gate: [3] };
  const gate = 3 * 16 + 2 * 4;
  t.deepEqual(parametersOf(mmoe), {
    "experts.0": 8 * 16,
    "experts.1": 8 * 16,
    "gates.0": gate,
    "gates.1": gate,
    ...towers(8),
  });
  const ple = parametersOf({
    ...{ kind: "ple", levels: 2, sharedExperts: 2, taskExperts: 1, expert: [8] },
  });
  for (const [level, inputs] of [15, 8].entries()) {
    const at = `levels.${level}`;
    for (const own of ["shared.0", "shared.1", "tasks.0.0", "tasks.1.0"]) {
      t.is(ple[`${at}.${own}`], 8 * (inputs + 1), own);
    }
    t.is(ple[`${at}.gates.0`], 3 * (inputs + 1), "one expert of the task and two shared ones");
  }
  t.is(ple["levels.0.gates.shared"], 4 * 16);
  t.false("levels.1.gates.shared" in ple, "no later level would read its result");
});

test("each task has a term of the loss with its weight, for its own label", (t) => {
  const model = modelOptions.parse({ ...common, kind: "sharedBottom", shared: [4] });
  const { output, objectives } = graphOf(model);
  t.deepEqual(output.shape, [2]);
  t.deepEqual(
    objectives.map(({ task }) => task),
    ["label", "label2"],
  );
  t.deepEqual(
    lossTermsOf({ ...graphOf(model) }).map(({ logit, target, weight }) => [logit, target, weight]),
    [
      [0, { of: "label", column: 0 }, 2],
      [1, { of: "label", column: 1 }, 1],
    ],
  );
});

test("metrics of a task cover the samples that have its label, in their groups", (t) => {
  const logits = Float32Array.of(1, -1, 2, 0.5, -3, 4, 0.25, 0.125);
  const labels = Float32Array.of(1, Number.NaN, 0, 1, 1, 0, Number.NaN, 1);
  const groups = Float32Array.of(1, 1, 1, 2, 7, 7, 7, 8);
  const names = ["click", "buy"].map((name) => ({ name, isNumber: false }));
  const { tasks: own, ...first } = evaluateScores({ samples: 4, logits, labels, groups }, names);
  const click = {
    samples: 3,
    logits: Float32Array.of(1, 2, -3),
    labels: Float32Array.of(1, 0, 1),
    groups: Float32Array.of(1, 1, 1, 7, 7, 7),
  };
  const buy = {
    samples: 3,
    logits: Float32Array.of(0.5, 4, 0.125),
    labels: Float32Array.of(1, 0, 1),
    groups: Float32Array.of(1, 1, 2, 7, 7, 8),
  };
  t.deepEqual(own, { click: evaluateScores(click), buy: evaluateScores(buy) });
  t.deepEqual(first, evaluateScores(click));
  const seconds = { ...click, labels: Float32Array.of(2, Number.NaN, 5) };
  const { samples, mae } = evaluateScores(seconds, [{ name: "seconds", isNumber: true }]);
  t.deepEqual([samples, mae], [2, 4.5]);
});

test("metrics are given per task, and the first task's at the top level", (t) => {
  const logits = Float32Array.of(1, -1, 2, 0.5, -3, 4);
  const labels = Float32Array.of(1, 0, 0, 1, 1, 0);
  const names = ["click", "buy"].map((name) => ({ name, isNumber: false }));
  const found = evaluateScores({ samples: 3, logits, labels }, names);
  const { tasks: own, ...first } = found;
  const click = evaluate(Float32Array.of(1, 2, -3), Float32Array.of(1, 0, 1));
  t.deepEqual(own, {
    click,
    buy: evaluate(Float32Array.of(-1, 0.5, 4), Float32Array.of(0, 1, 0)),
  });
  t.deepEqual(first, click);
});

test("tasks that do not match the labels of the data are refused, naming the option", (t) => {
  const data = { kind: "synthetic", samples: 100, dense: 5, batchSize: 10, labels: 2 } as const;
  const job = (model: object, more: object = {}) => ({
    model: { ...common, kind: "mmoe", experts: 2, expert: [4], ...model },
    data: { ...data, ...more },
  });
  t.notThrows(() => resolveJob(job({})));
  const cases: [object, object, RegExp][] = [
    [{}, { labels: 3 }, /`model.tasks` to be a task for each label of the data, `label`, `label2`/],
    [
      { tasks: [{ name: "label" }, { name: "buy" }] },
      {},
      /`model.tasks\[1\].name` to be "label2", the label at its place in the data, got `buy`/,
    ],
    [
      { tasks: [{ name: "label" }, { name: "label" }] },
      {},
      /`model.tasks\[1\].name` to be a name that no other task has/,
    ],
    [{ experts: 0 }, {}, /`model.experts`/],
    [
      { tasks: [{ name: "label", given: "label2" }, { name: "label2" }] },
      {},
      /`model.tasks\[0\].given` to be left out of the first task/,
    ],
    [
      { tasks: [{ name: "label" }, { name: "label2", given: "label3" }] },
      {},
      /`model.tasks\[1\].given` to be an earlier task, "label"/,
    ],
    [
      {
        tasks: [
          { name: "label", loss: { kind: "mse" } },
          { name: "label2", given: "label" },
        ],
      },
      {},
      /`model.tasks\[1\].given` to be left out where a loss is `mse`/,
    ],
    [
      { tasks: [{ name: "label" }, { name: "label2", missing: "mask" }] },
      { missingLabels: { label2: "negative" } },
      /`data.missingLabels` to be "mask" for `label2`, as `model.tasks\[1\].missing` says/,
    ],
    [{}, { missingLabels: { buy: "mask" } }, /`data.missingLabels` to be names of labels, `label`/],
    [
      {
        tasks: [{ name: "label" }, { name: "label2", loss: { kind: "mse" }, missing: "negative" }],
      },
      {},
      /`model.tasks\[1\].missing` to be "mask", as `label2` is a number, not a class/,
    ],
    [
      { tasks: [{ name: "label", weight: 0 }, { name: "label2" }] },
      {},
      /`model.tasks\[0\].weight`/,
    ],
  ];
  for (const [model, more, message] of cases) {
    t.throws(() => resolveJob(job(model, more)), { message });
  }
  const esmm = { ...common, kind: "esmm", tasks: [{ name: "label" }] };
  t.throws(() => resolveJob({ model: esmm, data: { ...data, labels: undefined } }), {
    message: /`model.tasks` to be two tasks: a label, as of a click, and one that is 0 without it/,
  });
  const one = { model: { kind: "dlrm", dense: 5, tables, bottom: [4], top: [1], dim: 4 }, data };
  t.throws(() => resolveJob(one), { message: /`data.labels` to be one label, as `model.kind`/ });
});
