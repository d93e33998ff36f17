// Newer checkpoints, several versions, traffic splits and shadows: the right version answers, and
// the answer names the version.

import { cpSync, readdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import test from "ava";
import { ArithmeticMismatchError } from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { calibrateModel } from "../../../../storage/model/calibrate-model.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { recordsOf, startModel, startServer } from "../../../../test/helpers/models/served.ts";
import { flipByte } from "../../../../test/helpers/stores/checkpoints.ts";
import { until } from "../../../../test/helpers/until.ts";
import { exportModel } from "../../../formats/exports/export-model.ts";
import { exportDelta } from "../../model/export-delta.ts";
import { ServedModel } from "../../model/served-model.ts";
import { ModelWatch } from "../../server/models/model-watch.ts";

const records = recordsOf(3);
const predict = "/v1/models/m:predict";

async function scoresIn(directory: string, manifest = "last"): Promise<number[]> {
  await using model = await loadModel(directory, { manifest });
  return [...(await model.predict(records))];
}

test("a newer checkpoint takes over without a lost request; the former answers by its name", async (t) => {
  const model = await startModel(t);
  const { directory } = model;
  const { server, post, get } = await startServer(t, { models: { m: { path: directory } } });
  const first = server.versions.m;
  const scores = new Map([[first?.digest, await scoresIn(directory)]]);
  let isOver = false;
  const seen = new Set<string>();
  const asking = (async () => {
    while (!isOver) {
      const { status, body } = await post(predict, { instances: records });
      t.is(status, 200, body.error);
      seen.add(body.version);
      const expected = scores.get(body.version);
      if (expected !== undefined) t.deepEqual(body.predictions, expected);
    }
  })();
  await until("the first answer", () => seen.size === 1);
  await model.train({ cut: 2 });
  scores.set(await digestIn(directory), await scoresIn(directory));
  await until("the version of step 2", () => server.versions.m?.step === 2);
  await until("an answer of the next version", () => seen.size === 2);
  isOver = true;
  await asking;
  t.is(scores.size, 2);

  const old = await post(`/v1/models/m/versions/${first?.digest}:predict`, { instances: records });
  t.deepEqual(old.body.predictions, scores.get(first?.digest));
  const { body } = await get("/v2/models/m");
  t.deepEqual(body.versions, [server.versions.m?.digest, first?.digest]);
  await model.train({ cut: 3 });
  await until("the version of step 3", () => server.versions.m?.step === 3);
  t.is((await post("/v1/models/m/versions/1:predict", { instances: records })).status, 404);
  t.regex(await server.metrics(), /osiris_serve_reloads_total\{model="m",result="switched"\} 2/);
});

async function digestIn(directory: string): Promise<string> {
  await using model = await loadModel(directory, { manifest: "last" });
  return model.digest;
}

test("a damaged checkpoint is reported, and the former version continues to serve", async (t) => {
  const model = await startModel(t);
  const served = join(model.home, "served");
  cpSync(model.directory, served, { recursive: true });
  const { post, get, server } = await startServer(t, { models: { m: { path: served } } });
  const before = await scoresIn(served);
  await model.train({ cut: 2 });
  // The complete but damaged checkpoint appears in the served directory.
  const name = "000000002-g000001";
  const copy = join(model.home, name);
  cpSync(join(model.directory, "checkpoints", name), copy, { recursive: true });
  const [part = ""] = readdirSync(copy).filter((file) => file !== "manifest.json");
  flipByte(realDisk, join(copy, part), 40);
  renameSync(copy, join(served, "checkpoints", name));
  const failureIn = async () => (await get("/v2/models/m")).body.parameters.failure;
  await until("a failure", async () => (await failureIn()) !== undefined);
  t.is((await failureIn()).code, "CHECKPOINT_CORRUPT");
  t.deepEqual((await post(predict, { instances: records })).body.predictions, before);
  t.regex(await server.metrics(), /osiris_serve_reloads_total\{model="m",result="failed"\} 1/);
});

test("a model whose directory disappears continues to serve", async (t) => {
  const model = await startModel(t);
  const { directory } = model;
  const { server, post } = await startServer(t, { models: { m: { path: directory } } });
  const before = await scoresIn(directory);
  renameSync(directory, `${directory}-away`);
  await sleep(100);
  t.deepEqual((await post(predict, { instances: records })).body.predictions, before);
  renameSync(`${directory}-away`, directory);
  await model.train({ cut: 2 });
  await until("the version of step 2", () => server.versions.m?.step === 2);
});

test("a replaced model file is loaded; a damaged one in its place is not", async (t) => {
  const model = await startModel(t);
  const path = join(model.home, "model.osiris");
  const next = join(model.home, "next.osiris");
  await exportModel(model.directory, path);
  const { server, post, get } = await startServer(t, { models: { m: { path } } });
  const predicted = async () => (await post(predict, { instances: records })).body.predictions;
  const first = await scoresIn(model.directory);
  t.deepEqual(await predicted(), first);
  await model.train({ cut: 2 });
  await exportModel(model.directory, next, { manifest: "last" });
  cpSync(next, `${next}-damaged`);
  const { size } = statSync(next);
  flipByte(realDisk, `${next}-damaged`, size >> 1);
  renameSync(`${next}-damaged`, path);
  const failure = async () => (await get("/v2/models/m")).body.parameters.failure;
  await until("a failure", async () => (await failure()) !== undefined);
  t.is((await failure()).code, "CHECKPOINT_CORRUPT");
  t.deepEqual(await predicted(), first);
  renameSync(next, path);
  await until("the version of step 2", () => server.versions.m?.step === 2);
  t.deepEqual(await predicted(), await scoresIn(model.directory));
  t.is(await failure(), undefined);
});

test("a delta in the model directory is applied; a damaged one is not", async (t) => {
  const model = await startModel(t);
  const served = join(model.home, "served");
  cpSync(model.directory, served, { recursive: true });
  const { server, post, get } = await startServer(t, { models: { m: { path: served } } });
  await model.train({ cut: 2 });
  const made = join(model.home, "made");
  await exportDelta(model.directory, made, { since: 1 });
  renameSync(made, join(served, "2.delta"));
  await until("the version of step 2", () => server.versions.m?.step === 2);
  t.is(server.versions.m?.digest, await digestIn(model.directory));
  const { body } = await post(predict, { instances: records });
  t.deepEqual(body.predictions, await scoresIn(model.directory));
  t.is(body.version, server.versions.m?.digest);
  t.is((await post("/v1/models/m/versions/1:predict", { instances: records })).status, 404);

  await model.train({ cut: 3 });
  await exportDelta(model.directory, made, { since: 2 });
  flipByte(realDisk, made, 30);
  renameSync(made, join(served, "3.delta"));
  const failureIn = async () => (await get("/v2/models/m")).body.parameters.failure;
  await until("a failure", async () => (await failureIn()) !== undefined);
  t.is((await failureIn()).code, "CHECKPOINT_CORRUPT");
  t.deepEqual((await post(predict, { instances: records })).body, body);
});

test("a refused delta or checkpoint is tried again once it or the served version has changed", async (t) => {
  const model = await startModel(t);
  const watch = new ModelWatch(model.directory, undefined, realDisk);
  const { digest } = await loadedIn(model.directory);
  t.is(watch.poll({ digest, step: 1 }), undefined);
  writeFileSync(join(model.directory, "b.delta"), "one");
  const delta = watch.poll({ digest, step: 1 });
  t.like(delta, { kind: "delta", path: join(model.directory, "b.delta") });
  t.is(watch.poll({ digest, step: 1 }), undefined);
  // Another delta has changed the served version: `b.delta` may now apply to it, and the
  // checkpoint is older than it.
  t.like(watch.poll({ digest: "sha256:77", step: 2 }), { kind: "delta" });
  t.is(watch.poll({ digest: "sha256:77", step: 2 }), undefined);
  await model.train({ cut: 3 });
  const newer = watch.poll({ digest: "sha256:77", step: 2 });
  t.like(newer, { kind: "checkpoint" });
  if (newer !== undefined) watch.retry(newer);
  const polls = Array.from({ length: 12 }, () => watch.poll({ digest: "sha256:77", step: 2 }));
  t.is(polls.filter((one) => one?.kind === "checkpoint").length, 1);
});

test("a calibration that is stored or replaced while its model is loaded is an update", async (t) => {
  const model = await startModel(t);
  const file = join(model.home, "model.osiris");
  await exportModel(model.directory, file);
  for (const path of [model.directory, file]) {
    for (const samples of [64, 32]) {
      const watch = new ModelWatch(path, undefined, realDisk);
      const { digest } = await loadedIn(path);
      await calibrateModel(path, { data: { samples } });
      const calibrated = samples === 32 && ({ calibrated: true } as const);
      const version = { digest, step: 1, ...calibrated };
      t.like(watch.poll(version), { kind: "calibration" }, `${path} ${samples}`);
      t.is(watch.poll(version), undefined);
    }
  }
});

async function loadedIn(directory: string) {
  await using loaded = await loadModel(directory);
  return { digest: loaded.digest };
}

test("an engine that hangs is loaded again", async (t) => {
  const model = await startModel(t);
  let opened = 0;
  const open = async (path: string) => {
    const engine = await ServedModel.open(path);
    if (opened++ > 0) return engine;
    return new Proxy(engine, {
      get(target, name) {
        if (name === "predict") return () => new Promise(() => {});
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
  const options = { models: { m: { path: model.directory } }, engineMs: 100 };
  const { post, get } = await startServer(t, options, { open });
  const stuck = await post(predict, { instances: records });
  t.is(stuck.status, 503);
  t.is(stuck.body.code, "MODEL_UNAVAILABLE");
  await until("another engine", async () => (await get("/v2/health/ready")).status === 200);
  t.is((await post(predict, { instances: records })).status, 200);
});

test("a traffic split sends each key to one side, in its percentage", async (t) => {
  const [model, other] = [await startModel(t), await startModel(t)];
  await other.train({ cut: 2 });
  const split = { model: "next", percent: 30 };
  const models = { m: { path: model.directory, split }, next: { path: other.directory } };
  const { post, server } = await startServer(t, { models });
  const sideOf = async (key: string) => {
    const { body } = await post(predict, { instances: records }, { "osiris-key": key });
    t.is(body.version, server.versions[body.model]?.digest);
    return body.model as string;
  };
  const keys = Array.from({ length: 200 }, (_, i) => `user-${i}`);
  const sides = await Promise.all(keys.map(sideOf));
  t.deepEqual(await Promise.all(keys.map(sideOf)), sides);
  const share = sides.filter((side) => side === "next").length / keys.length;
  t.true(Math.abs(share - 0.3) < 0.08, `${share}`);
  // Requests without a key alternate by the percentage.
  const turns = await Promise.all(
    Array.from({ length: 100 }, async () => (await server.predict("m", records)).model),
  );
  t.true(Math.abs(turns.filter((side) => side === "next").length - 30) < 5);
});

test("a shadow version is compared with the served one, and never answers", async (t) => {
  const [model, other] = [await startModel(t), await startModel(t)];
  await other.train({ cut: 2 });
  const models = {
    m: { path: model.directory, shadow: "next" },
    next: { path: other.directory },
  };
  const { post, server } = await startServer(t, { models });
  const { body } = await post(predict, { instances: records });
  t.is(body.model, "m");
  t.deepEqual(body.predictions, await scoresIn(model.directory));
  const count = /osiris_serve_shadow_difference_sum\{model="m",shadow="next"\} ([\d.e-]+)/;
  await until("a comparison", async () => count.test(await server.metrics()));
  const next = await scoresIn(other.directory);
  const largest = Math.max(...next.map((score, i) => Math.abs(score - body.predictions[i])));
  const [, counted = ""] = count.exec(await server.metrics()) ?? [];
  t.true(largest > 0);
  t.is(Number(counted), largest);
});

test("tables on disk give the same answers as tables in memory, and are logged and counted", async (t) => {
  const model = await startModel(t, { rows: 5000 });
  const { directory: path, home } = model;
  const tierDirectory = join(home, "tiers");
  const logged: string[] = [];
  const log = { write: (_: string, message: string) => void logged.push(message), keep() {} };
  const { server, post } = await startServer(
    t,
    { models: { m: { path, memoryBytes: 60_000, tierDirectory }, whole: { path } } },
    { log },
  );
  t.is(
    logged.filter((line) => /^Table [AB] is on disk: memory caches \d+ of its 5000 rows/.test(line))
      .length,
    2,
  );
  const many = recordsOf(300, 1).map((record, i) => ({ ...record, A: (17 * i) % 5000 }));
  const candidates = many.map(({ A }) => ({ A }));
  const areAlike = async () => {
    for (const [call, body] of [
      ["predict", { instances: many }],
      ["rank", { user: many[7], candidates, top: 5 }],
    ] as const) {
      const [own, whole] = [
        await post(`/v1/models/m:${call}`, body),
        await post(`/v1/models/whole:${call}`, body),
      ];
      t.is(own.status, 200, own.body.error);
      t.deepEqual({ ...own.body, model: "" }, { ...whole.body, model: "" });
    }
  };
  await areAlike();
  const metrics = await server.metrics();
  const [, hits = 0] = /osiris_serve_row_hits_total\{model="m"\} (\d+)/.exec(metrics) ?? [];
  const [, misses = 0] = /osiris_serve_row_misses_total\{model="m"\} (\d+)/.exec(metrics) ?? [];
  t.true(Number(hits) > 100 && Number(misses) > 300, `${hits} hits, ${misses} misses`);
  t.notRegex(metrics, /row_hits_total\{model="whole"\}/);
  await model.train({ cut: 2 });
  await until("the versions of step 2", () =>
    [server.versions.m, server.versions.whole].every((one) => one?.step === 2),
  );
  await areAlike();
});

test.serial(
  "a version of another arithmetic is served only if an option allows it, and is reported",
  async (t) => {
    const trained = await startModel(t);
    await trained.train({ cut: 2, arithmetic: "abacus" });
    const { directory: path } = trained;
    await t.throwsAsync(startServer(t, { models: { m: { path } } }), {
      instanceOf: ArithmeticMismatchError,
    });
    const logged: string[] = [];
    const log = { write: (_: string, message: string) => void logged.push(message), keep() {} };
    const { post } = await startServer(t, { models: { m: { path, arithmetic: "auto" } } }, { log });
    await using model = await loadModel(path, { arithmetic: "auto" });
    const instances = recordsOf(3);
    const { status, body } = await post("/v1/models/m:predict", { instances });
    t.is(status, 200);
    t.deepEqual(body.predictions, [...(await model.predict(instances))]);
    t.true(logged.some((message) => /^Trained with abacus, scored with /.test(message)));
  },
);
