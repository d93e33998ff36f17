// Models of data on HTTP or S3 servers: they equal those of the same files on a disk, bit for bit,
// and so do their evaluations, predictions, rows, tables of ids and copies. No file contains the
// signature of an address.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import test, { type ExecutionContext } from "ava";
import { withinRoots } from "../../../actors/jobs/allowed-paths.ts";
import type { JobOptions, Run } from "../../../index.ts";
import { tableIds } from "../../../packages/formats/tables/table-ids.ts";
import { inspectWarehouse } from "../../../packages/ingest/warehouse/inspect-warehouse.ts";
import { writeWarehouse } from "../../../packages/ingest/warehouse/write-warehouse.ts";
import { predictFile } from "../../../packages/serve/predict/predict-file.ts";
import { csv, jsonl, parquet } from "../../../src/data/sources.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { jobIdentity, resolveJob } from "../../../src/job/job.ts";
import { transformedRows } from "../../../src/job/transformed-rows.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { startDirectory } from "../../data/data-files.ts";
import { type Place, startPlace, transports } from "../../data/remote/places.ts";
import { startTestCluster, type TestCluster } from "../../helpers/clusters/clusters.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { someOrAll, thinned } from "../../helpers/thinned.ts";

const rows = Array.from({ length: 600 }, (_, i) => {
  return { label: (i * 7) % 3 === 0 ? 1 : 0, age: (i % 13) / 4, user: `u${(i * i) % 41}` };
});
const asCsv = ["label,age,user", ...rows.map((row) => Object.values(row).join(","))].join("\n");
const asLines = rows.map((row) => JSON.stringify(row)).join("\n");
const columns = { label: "label", dense: ["age"], categorical: ["user"], batchSize: 16 };

type Sources = (paths: readonly string[], cache: string) => JobOptions["data"];
const kinds: Readonly<Record<string, readonly [string, Buffer, Sources]>> = {
  http: ["csv", Buffer.from(asCsv), (paths, cache) => csv(paths, { ...columns, cache })],
  s3: ["jsonl.gz", gzipSync(asLines), (paths, cache) => jsonl(paths, { ...columns, cache })],
};

function jobOf(data: JobOptions["data"], directory: string): JobOptions {
  const tables = [{ name: "user", rows: 50, dim: 8, initScale: 0.4 }];
  return {
    model: { kind: "dlrm", dense: 1, tables, bottom: [8], top: [1] },
    ...{ data, evaluation: { fraction: 0.2 }, checkpoint: { directory } },
  };
}

/** Trains on files of a server and of a disk, and opens both models. */
async function trained(
  t: ExecutionContext,
  place: TestCluster,
  { there, kind }: { readonly there: Place; readonly kind: keyof typeof kinds },
) {
  const home = startDirectory(t);
  const [ending, bytes, dataOf] = kinds[kind] ?? [];
  if (bytes === undefined || dataOf === undefined) throw new TypeError("a kind");
  mkdirSync(join(home, "here"));
  const local = join(home, "here", `a.${ending}`);
  writeFileSync(local, bytes);
  const address = await there.put(`there/a.${ending}`, bytes);
  const modelOf = async (paths: readonly string[], name: string) => {
    const directory = join(home, name);
    const job = jobOf(dataOf(paths, join(home, "cache")), directory);
    const run = await place.cluster.submit(job);
    await run.result();
    const model = await loadModel(directory);
    t.teardown(() => model.close());
    return { job, run, model };
  };
  const near = await modelOf([join(home, "here")], "near");
  const far = await modelOf(there.allOf("there"), "far");
  return { ...{ home, local, address, ending }, near, far };
}

/** The status and the events of a finished run, as JSON. */
async function toldOf(run: Run): Promise<string> {
  const told: unknown[] = [await run.status()];
  for await (const event of run.events()) {
    told.push(event);
    if (event.type === "run.finished" || event.type === "run.failed") break;
  }
  return JSON.stringify(told);
}

test.serial("models of data on servers equal those of the same files on a disk", async (t) => {
  await using place = await startTestCluster();
  // The samples are the same for every transport: every-kind.test.ts tests that.
  const some = someOrAll(
    "transports of data that models are trained on",
    transports.slice(0, 1),
    transports,
  );
  for (const transport of some) await checkTransport(t, place, transport);
  await checkRefusals(t, place);
});

/** Checks that a model of data over HTTP or S3 equals that of the same files on a disk. */
async function checkTransport(
  t: ExecutionContext,
  place: TestCluster,
  transport: (typeof transports)[number],
): Promise<void> {
  const there = await startPlace(t, transport);
  const found = await trained(t, place, { there, kind: transport });
  const { home, near, far, local, address, ending } = found;
  t.true(far.model.step > 20);
  t.is(far.model.digest, near.model.digest);
  const paths = there.allOf("there");
  t.deepEqual(await far.model.evaluate({ paths }), await near.model.evaluate({ paths: [local] }));
  t.deepEqual(await far.model.evaluate(undefined), await near.model.evaluate(undefined));
  const [out, other] = [join(home, "out"), join(home, "other")];
  const report = await predictFile(far.model, address, out);
  t.deepEqual({ ...(await predictFile(near.model, local, other)), file: out }, report);
  sameValues(t, readFileSync(out), readFileSync(other));
  const [job, jobHere] = [resolveJob(far.job), resolveJob(near.job)];
  t.deepEqual(await transformedRows(job, address, 5), await transformedRows(jobHere, local, 5));
  await tableIds(job, "user", out, { paths: [address] });
  await tableIds(jobHere, "user", other, { paths: [local] });
  sameValues(t, readFileSync(out), readFileSync(other));
  // A Parquet copy on the server is a table on which a model is evaluated, too.
  await writeWarehouse(paths, join(home, "table"));
  const [name = ""] = readdirSync(join(home, "table"));
  const table = await there.put("table/a.parquet", readFileSync(join(home, "table", name)));
  const { files, rows: count } = await inspectWarehouse(there.allOf("table"));
  t.deepEqual([files, count], [1, rows.length]);
  const read = parquet(table, { ...columns, cache: join(home, "cache") });
  t.is(jobIdentity(resolveJob(jobOf(read, "a"))).length, 64);
  const asTable = await far.model.evaluate(read, { dataDiffers: true });
  t.deepEqual(asTable, await near.model.evaluate({ paths: [local] }));
  t.true(ending === "csv" || there.allOf("there")[0]?.endsWith("/"));

  // Checks every file that was made, and all that the run has reported.
  const files_ = readdirSync(home, { recursive: true, withFileTypes: true });
  for (const entry of files_.filter((one) => one.isFile())) {
    const bytes = readFileSync(join(entry.parentPath, entry.name));
    t.false(bytes.includes("secret"), entry.name);
  }
  t.notRegex(await toldOf(far.run), /secret/);
}

/** Checks that the signature of an address is part of no job identity and no error message. */
async function checkRefusals(t: ExecutionContext, place: TestCluster): Promise<void> {
  const there = await startPlace(t, "http");
  const home = startDirectory(t);
  const dataOf = (address: string, rest: object = {}) =>
    csv(address, { ...columns, cache: home, ...rest });
  const address = await there.put("a.csv", Buffer.from(asCsv));
  const again = address.replace("secret", "other");
  const [one, other] = [address, again].map((path) => {
    return jobIdentity(resolveJob(jobOf(dataOf(path), "a")));
  });
  t.is(one, other);
  const gone = jobIdentity(resolveJob(jobOf(dataOf(address.replace("a.csv", "b.csv")), "a")));
  t.not(gone, one);
  const cases: readonly [name: string, text: string, rest: object, message: RegExp][] = [
    ["empty", "", {}, /The data file http.*\/empty is empty/],
    ["header", "a,a\n", {}, /The header of the data file http.*\/header is unusable: /],
    ["column", "label,age\n1,2\n", {}, /names the column `user`, which http.*\/column does not/],
    ["delimiter", "label;age;user\n", {}, /Expected the columns of http.*\/delimiter to be sep/],
    ["other", "x,y\n", {}, /Expected the first line of http.*\/other to name the columns/],
    ["bad", `${asCsv}\n${"2,1,a\n".repeat(99)}`, {}, /of the lines of http.*\/bad to be bad/],
    ["none", "label,age,user\n2,1,a\n", {}, /http.*\/none has no good line, and 1 bad ones; http/],
    ["classes", "label,age,user\n1,1,a\n", {}, /all 1 good lines of http.*\/classes have the lab/],
    [
      "gz",
      "\u001f\u008bnone",
      {},
      /Cannot read the data file http.*\/gz: unknown compression method/,
    ],
  ];
  for (const [name, text, rest, message] of thinned("refusals of remote data", cases)) {
    const path = await there.put(name, Buffer.from(text, "latin1"));
    const run = await place.cluster.submit(jobOf(dataOf(path, rest), join(home, name)));
    const error = await t.throwsAsync(run.result(), { message }, name);
    t.notRegex(error.message, /secret/);
    t.notRegex(await toldOf(run), /secret/);
  }
  const missing = `${address.replace("a.csv", "none.csv")}`;
  const refused = place.cluster.submit(jobOf(dataOf(missing), join(home, "missing")));
  const error = await t.throwsAsync(refused.then((run) => run.result()));
  t.regex(error.message, /none\.csv: the server says 404 Not Found; name another address, or copy/);
  t.notRegex(error.message, /secret/);
}

test("under a data root, a job with an address is refused", (t) => {
  const home = startDirectory(t);
  const data = csv("https://data.example/a.csv?signature=secret", { ...columns, cache: home });
  const job = resolveJob(jobOf(data, join(home, "run")));
  const error = t.throws(() => withinRoots(job, { roots: { data: home }, tenants: {} }, undefined));
  t.false(error instanceof InvalidOptionError);
  t.regex(
    error?.message ?? "",
    /`data\.paths\[0\]` to lie in .*, got https:\/\/data\.example\/a\.csv: /,
  );
});
