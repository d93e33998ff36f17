// Options that override the job file, from the command line; anchors and merges in the file.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { loadJob } from "../../cli/support/job-file.ts";
import { InvalidOptionError } from "../../src/errors/errors.ts";
import { withOption } from "../../src/job/with-option.ts";
import { type Fields, isSection } from "../../src/ports/written.ts";
import { startDirectory } from "../data/data-files.ts";
import { wholeJobSchema } from "../helpers/job-json-schema.ts";

test("YAML may have anchors and merges", async (t) => {
  const path = join(startDirectory(t), "job.yaml");
  const lines = [
    "model:",
    "  kind: dlrm",
    "  tables:",
    "    - &table { name: user, rows: 100, dim: 4, pooling: mean }",
    "    - { <<: *table, name: item, rows: 20 }",
    "  top: [4, 1]",
    "data: { kind: csv, paths: [clicks.csv], label: clicked, batchSize: 10 }",
  ];
  writeFileSync(path, lines.join("\n"));
  const { model } = await loadJob(path);
  t.deepEqual(model.tables?.[1], { name: "item", rows: 20, dim: 4, pooling: "mean" });
});

test("--set and --seed change a job before it is checked, the last one wins", async (t) => {
  const path = join(startDirectory(t), "job.json");
  const job = {
    model: { kind: "dlrm", table: { rows: 100, dim: 4 }, top: [4, 1] },
    data: { kind: "csv", paths: ["a.csv"], label: "l", categorical: ["user"], batchSize: 10 },
  };
  writeFileSync(path, JSON.stringify(job));
  const set = [
    "data.batchSize=20",
    "data.batchSize=30",
    "data.paths[0]=b.csv",
    "optimizer.dense={ kind: adam, learningRate: 0.002 }",
    "model.table.rows = 7",
    "name=night",
  ];
  const changed = await loadJob(path, { set, seed: 3 });
  t.like(changed, { name: "night", seed: 3, optimizer: { dense: { learningRate: 0.002 } } });
  t.like(changed.data, { batchSize: 30, paths: ["b.csv"] });
  t.deepEqual(changed.model.table, { rows: 7, dim: 4 });
});

test("an integer beyond 2^53 keeps its digits, as text, in YAML, in JSON and in --set", async (t) => {
  const home = startDirectory(t);
  const [most, user] = [Number.MAX_SAFE_INTEGER, "9007199254740993"];
  const where = `[{ column: user, from: ${user}, until: ${most}, in: [1.5, 0x10, -7] }]`;
  const json = `[{ "column": "user", "from": ${user}, "until": ${most}, "in": [1.5, 16, -7] }]`;
  const model = '{ "kind": "dlrm", "table": { "rows": 100, "dim": 4 }, "top": [4, 1] }';
  const columns = '"label": "l", "categorical": ["user"], "batchSize": 10';
  const data = (own: string) =>
    `{ "kind": "parquet", "paths": ["a"], ${columns}, "where": ${own} }`;
  const kept = [{ column: "user", from: user, until: most, in: [1.5, 16, -7] }];
  const whereOf = async (path: string, own: string, set: string[] = []) => {
    writeFileSync(join(home, path), `{ "model": ${model}, "data": ${data(own)} }`);
    const { data: read } = await loadJob(join(home, path), { set });
    return "where" in read ? read.where : undefined;
  };
  t.deepEqual(await whereOf("job.yaml", where), kept);
  t.deepEqual(await whereOf("job.json", json), kept);
  const set = [`data.where[0].from=${user}`];
  t.deepEqual(await whereOf("job.json", json.replace(user, "1"), set), kept);
});

test("an invalid --set, or one of no option, is refused", async (t) => {
  const path = join(startDirectory(t), "job.json");
  writeFileSync(path, JSON.stringify({ model: {}, data: {} }));
  const refusal = async (...set: string[]) =>
    (await t.throwsAsync(loadJob(path, { set }), { instanceOf: InvalidOptionError }))?.message ??
    "";
  t.is(
    await refusal("seed"),
    "Expected `--set` to be an option and its value, as data.batchSize=512, got `seed`",
  );
  t.regex(await refusal("data={"), /as data\.batchSize=512, but `\{` is not valid YAML$/);
  t.regex(await refusal("sede=3"), /Expected no option `sede`: did you mean `seed`\?/);
});

test("an option of an absent section is set in the section's default kind", async (t) => {
  const path = join(startDirectory(t), "job.json");
  const table = { name: "user", rows: 100, dim: 4 };
  const job = {
    model: { kind: "dlrm", tables: [table], top: [4, 1] },
    data: { kind: "csv", paths: ["a.csv"], label: "l", batchSize: 10 },
  };
  writeFileSync(path, JSON.stringify(job));
  const set = [
    "optimizer.dense.learningRate=0.5",
    "optimizer.sparse.learningRate=0.25",
    "loss.positiveWeight=3",
  ];
  t.like(await loadJob(path, { set }), {
    optimizer: {
      dense: { kind: "adagrad", learningRate: 0.5 },
      sparse: { kind: "rowWiseAdagrad", learningRate: 0.25 },
    },
    loss: { kind: "binaryCrossEntropy", positiveWeight: 3 },
  });
  const kinds = ["optimizer.dense.learningRate=0.5", "optimizer.dense.kind=adam"];
  t.like(await loadJob(path, { set: kinds }), {
    optimizer: { dense: { kind: "adam", learningRate: 0.5 } },
  });
  const made = withOption({ model: { tables: [{}] } }, "model.tables[0].dynamic.eviction.x", 1, "");
  t.like(made, { model: { tables: [{ dynamic: { eviction: { kind: "lfu", x: 1 } } }] } });
});

test("`withOption` knows every section whose kind has a default", (t) => {
  const found: string[] = [];
  const look = (schema: Schema, path: string) => {
    const { oneOf = [], anyOf = [], properties = {}, items, default: usual } = schema;
    if (oneOf.length > 0 && isSection(usual) && usual.kind !== undefined) {
      found.push(path);
      const made = withOption({}, `${path.replaceAll("[]", "")}.x`, 1, "");
      const own = path.replaceAll("[]", "").split(".");
      const section = own.reduce<unknown>((at, name) => (at as Fields)[name], made);
      if (!path.includes("[]")) t.deepEqual(section, { ...usual, x: 1 }, path);
    }
    for (const branch of [...oneOf, ...anyOf]) look(branch, path);
    if (items !== undefined) look(items, `${path}[]`);
    for (const [name, inner] of Object.entries(properties)) {
      look(inner, path === "" ? name : `${path}.${name}`);
    }
  };
  look(wholeJobSchema() as Schema, "");
  t.deepEqual([...new Set(found)].sort(), [
    "loss",
    "model.table.dynamic.admission",
    "model.table.dynamic.eviction",
    "model.tables[].dynamic.admission",
    "model.tables[].dynamic.eviction",
    "optimizer.dense",
    "optimizer.sparse",
  ]);
});

interface Schema {
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly default?: unknown;
}

test("an option path matches one list entry, all, or none", (t) => {
  const job = { tables: [{ rows: 1 }, { rows: 2 }] };
  t.deepEqual(withOption(job, "tables[1].rows", 9, "x"), { tables: [{ rows: 1 }, { rows: 9 }] });
  t.deepEqual(withOption(job, "tables[].rows", 9, "x"), { tables: [{ rows: 9 }, { rows: 9 }] });
  t.deepEqual(withOption(job, "a.b", 9, "x"), { ...job, a: { b: 9 } });
  t.throws(() => withOption(job, "tables[2].rows", 9, "x"), { instanceOf: InvalidOptionError });
});
