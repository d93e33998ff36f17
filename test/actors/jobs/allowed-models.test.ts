// Model modules are code: a job over NATS may name only modules that the cluster allows, wherever
// links and `..` lead.

import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import test from "ava";
import { type Access, withinRoots } from "../../../actors/jobs/allowed-paths.ts";
import { Cluster, connect, type JobOptions, RemoteError, resolveJob } from "../../../index.ts";
import { PathForbiddenError } from "../../../src/errors/errors.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData } from "../../helpers/clusters/clusters.ts";
import { moduleOf, twoTowers } from "../../helpers/models/own-models.ts";

test("a module is allowed by its real path, or by a directory above it", (t) => {
  const place = startDirectory(t);
  const [models, outside] = [join(place, "models"), join(place, "models-of-others")];
  for (const directory of [models, outside]) mkdirSync(directory);
  const [inside, other] = [join(models, "a.ts"), join(outside, "b.ts")];
  for (const path of [inside, other]) writeFileSync(path, "");
  symlinkSync(other, join(models, "link.ts"));
  symlinkSync(outside, join(models, "linked"));
  symlinkSync(models, join(place, "alias"));
  const taken = (path: string, access: Partial<Access>) => {
    const job = resolveJob({ model: { ...twoTowers, path }, data: smallData });
    const { model } = withinRoots(job, { roots: {}, tenants: {}, ...access }, "acme");
    return model.kind === "custom" ? model.path : undefined;
  };
  const roots = { models: [models] };
  for (const path of [inside, join(place, "alias", "a.ts"), relative(process.cwd(), inside)]) {
    t.is(taken(path, { roots }), inside);
    t.is(taken(path, { roots: { models: [join(place, "alias", "a.ts")] } }), inside);
    t.is(taken(path, { ownModels: new Set([inside]) }), inside);
    t.throws(() => taken(path, {}), {
      instanceOf: PathForbiddenError,
      message:
        /^Expected `model.path` to be a module that the cluster allows, got .*: it allows none;/,
    });
  }
  for (const path of ["link.ts", "linked/b.ts", "../models-of-others/b.ts"]) {
    const error = t.throws(() => taken(`${models}/${path}`, { roots }), {
      instanceOf: PathForbiddenError,
    });
    t.true(error.message.includes(`it allows ${models}`), error.message);
  }
  t.is(taken(join(models, "link.ts"), { roots: { models: [other] } }), other);
  // The path that was checked is the path that is read: `..` is removed before links are followed,
  // unlike in a shell.
  t.is(taken(`${models}/linked/../a.ts`, { roots }), inside);
});

test.serial(
  "over NATS, a model module that the cluster does not allow is refused and never runs",
  async (t) => {
    const place = startDirectory(t);
    const models = join(place, "models");
    mkdirSync(models);
    const ran = join(place, "ran");
    // If it ran, it would reach `process` through the constructor of its functions.
    const hostile = moduleOf(
      place,
      `const process = defineModel.constructor("return process")();
    process.getBuiltinModule?.("node:fs").writeFileSync(${JSON.stringify(ran)}, "");
    throw new Error("it ran");`,
    );
    symlinkSync(hostile, join(models, "link.ts"));
    copyFileSync(twoTowers.path, join(models, "two-towers.ts"));
    await using cluster = await Cluster.start({ devices: 1, roots: { models: [models] } });
    const at = { nats: cluster.url, ...(cluster.token ? { token: cluster.token } : {}) };
    await using client = await connect(at);
    const jobOf = (path: string): JobOptions => ({
      model: { ...twoTowers, path },
      data: { ...smallData, samples: 200, cache: join(place, "cache") },
      checkpoint: { directory: join(place, "run") },
    });
    for (const path of [hostile, join(models, "link.ts"), `${models}/../model.ts`]) {
      const error = await t.throwsAsync(client.submit(jobOf(path)), { instanceOf: RemoteError });
      t.is(error?.code, "PATH_FORBIDDEN");
      t.false(error?.message.includes("it ran"));
    }
    t.throws(() => readFileSync(ran), { code: "ENOENT" });
    const run = await client.submit(jobOf(join(models, "two-towers.ts")));
    t.is((await run.result()).status, "finished");
    // A job that this process submits itself may name any module; afterwards, other jobs may name
    // it as well.
    const own = await cluster.submit({ ...jobOf(twoTowers.path), seed: 1 });
    t.is((await own.result()).digest, (await run.result()).digest);
  },
);
