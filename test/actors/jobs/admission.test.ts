// The limits of tenants: request rate, request size, and allowed directories.

import { existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import test, { type ExecutionContext } from "ava";
import { connect as connectRaw } from "nats";
import { openAdmission, requestingTenant } from "../../../actors/jobs/admission.ts";
import { rootOptions, withinRoots } from "../../../actors/jobs/allowed-paths.ts";
import { publishedSchemas } from "../../../actors/jobs/job-api.ts";
import { Cluster, connect, type JobOptions, RemoteError, resolveJob } from "../../../index.ts";
import {
  InvalidOptionError,
  JobTooLargeError,
  PathForbiddenError,
  TenantRefusedError,
  TooManyRequestsError,
} from "../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { tenantsOf } from "../../../src/wire/tenancy/tenants.ts";
import { startDirectory } from "../../data/data-files.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { patient } from "../../helpers/nats/nats.ts";

test("a tenant's requests are limited per second, and do not use up another tenant's limit", (t) => {
  const clock = new SimulatedClock();
  const tenants = tenantsOf({ acme: { users: {}, requestsPerSecond: 2, requestBytesMax: 2000 } });
  const { admit } = openAdmission(clock, tenants);
  const refused = () => t.throws(() => admit("acme", 10), { instanceOf: TooManyRequestsError });
  for (let i = 0; i < 4; i++) admit("acme", 10);
  refused();
  admit("other", 10);
  for (let i = 0; i < 10_000; i++) admit(undefined, 10_000_000);
  clock.advance(400);
  refused(); // A refused request costs no tokens, and earns none.
  clock.advance(100);
  admit("acme", 10);
  refused();
  clock.advance(60_000);
  for (let i = 0; i < 4; i++) admit("acme", 2000);
  refused();
  t.throws(() => admit("acme", 2001), { instanceOf: JobTooLargeError });
  t.throws(() => admit("__proto__", 600_000), { instanceOf: JobTooLargeError });
});

function directoryOf(t: ExecutionContext): string {
  const directory = startDirectory(t);
  for (const name of ["data", "kept/acme", "outside"]) {
    mkdirSync(join(directory, name), { recursive: true });
  }
  return directory;
}

function jobOf(paths: readonly string[], directory: string, tiers?: string): JobOptions {
  return {
    model: { ...smallModel, tables: [] },
    data: { kind: "csv", paths: [...paths], label: "y", dense: ["a", "b", "c", "d"], batchSize: 8 },
    checkpoint: { directory },
    ...(tiers === undefined ? {} : { tiers: { directory: tiers } }),
  };
}

/** A job whose ids are line numbers of a vocabulary file. */
function withVocabulary(vocabulary: string): JobOptions {
  const { data, ...job } = jobOf(["a"], "run");
  const transforms = [{ op: "mapId", input: "c", output: "m", vocabulary }] as const;
  const model = { ...smallModel, tables: [{ name: "m", rows: 10, dim: 8 }] };
  return { ...job, model, data: { ...data, transforms } as JobOptions["data"] };
}

test("no path of a job leads out of the roots, whatever symbolic links it contains", (t) => {
  const place = directoryOf(t);
  const roots = { data: join(place, "data"), checkpoints: join(place, "kept") };
  symlinkSync(join(place, "outside"), join(roots.data, "link"));
  symlinkSync(join(place, "outside", "not-yet"), join(roots.checkpoints, "acme", "dangling"));
  symlinkSync(roots.data, join(place, "alias"));
  const taken = (job: JobOptions) => withinRoots(resolveJob(job), { roots, tenants: {} }, "acme");

  const job = taken(jobOf(["day/1.csv", join(place, "alias", "2.csv")], "run", "tiers/x"));
  t.like(job.data, {
    paths: [join(roots.data, "day/1.csv"), join(roots.data, "2.csv")],
    cache: join(roots.data, ".osiris/cache"),
  });
  t.is(job.checkpoint.directory, join(roots.checkpoints, "acme", "run"));
  t.is(job.tiers.directory, join(roots.checkpoints, "acme", "tiers/x"));

  const wrong: readonly [JobOptions, string][] = [
    [jobOf(["/etc/passwd"], "run"), "data.paths[0]"],
    [jobOf(["a.csv", "../outside/x"], "run"), "data.paths[1]"],
    [jobOf(["link/x"], "run"), "data.paths[0]"],
    [jobOf(["a/../../b"], "run"), "data.paths[0]"],
    [jobOf([`${roots.data}-2/x`], "run"), "data.paths[0]"],
    [jobOf(["a"], "../other/run"), "checkpoint.directory"],
    [jobOf(["a"], "dangling"), "checkpoint.directory"],
    [jobOf(["a"], "run", "/tmp"), "tiers.directory"],
    [{ ...jobOf(["a"], "run"), warmStart: { from: "../other/run" } }, "warmStart.from"],
    [
      { ...jobOf(["a"], "run"), evaluation: { data: { paths: ["/x"] } } },
      "evaluation.data.paths[0]",
    ],
    [withVocabulary("/etc/passwd"), "data.transforms[0].vocabulary"],
    [withVocabulary("link/words.txt"), "data.transforms[0].vocabulary"],
    [
      { ...jobOf(["a"], "run"), evaluation: { test: { data: { paths: ["/x"] } } } },
      "evaluation.test.data.paths[0]",
    ],
  ];
  for (const [one, option] of wrong) {
    const error = t.throws(() => taken(one), { instanceOf: PathForbiddenError }, option);
    t.is(error.option, option);
  }
  const several = t.throws(() => taken(jobOf(["/x", "a", "/y"], "../z")), {
    instanceOf: PathForbiddenError,
  });
  t.deepEqual(
    several.problems.map(({ option }) => option),
    ["data.paths[0]", "data.paths[2]", "checkpoint.directory"],
    "all forbidden paths at once",
  );
  t.deepEqual(withinRoots(job, { roots: {}, tenants: {} }, "acme"), job);
  const all = { roots: { data: "/" }, tenants: {} };
  t.is(withinRoots(job, all, undefined).data.cache, job.data.cache);
});

test("a tenant's paths stay within its own roots, however they are written", (t) => {
  const place = directoryOf(t);
  const roots = { data: join(place, "data", "{tenant}", "in"), checkpoints: join(place, "kept") };
  const [own, others] = ["acme", "other"].map((name) => join(place, "data", name, "in")) as [
    string,
    string,
  ];
  for (const directory of [own, others]) mkdirSync(directory, { recursive: true });
  symlinkSync(others, join(own, "link"));
  symlinkSync("link", join(own, "twice"));
  symlinkSync("loop", join(own, "loop"));
  const access = { roots, tenants: {} };
  const pathOf = (path: string, tenant?: string) => {
    const { data } = withinRoots(resolveJob(jobOf([path], "run")), access, tenant);
    return "paths" in data ? data.paths[0] : undefined;
  };
  t.is(pathOf("a", "acme"), join(own, "a"));
  t.is(pathOf("a", "other"), join(others, "a"));
  t.is(pathOf("acme/in/a"), join(own, "a"), "the operator may read all tenants' files");
  t.is(pathOf("..a/ｅ\u0301.csv", "acme"), join(own, "..a/ｅ\u0301.csv"));
  const wrong = [
    ...[join(others, "x"), "../../other/in/x", "link/x", "link", "twice/x", "x/../../../other/in"],
    ...[
      "loop/x",
      "..",
      "/",
      "a\u0000b",
      "a\u001b]0;x\u0007",
      own.toUpperCase(),
      `${own}/../IN/x`,
      "x".repeat(5000),
    ],
    ...[`${own}\u200b/x`, `${own}.`, "link/../../../../etc/passwd", "/proc/self/cwd/x"],
  ];
  for (const path of wrong) {
    const refused = { instanceOf: PathForbiddenError, message: /^Expected `data\.paths\[0\]`/ };
    t.throws(() => pathOf(path, "acme"), refused, path);
  }
});

test("checkpoints of tenants may lie below a prefix of a bucket", (t) => {
  const roots = rootOptions.parse({ checkpoints: "s3://bucket/kept/" });
  const placeOf = (directory: string, tenant?: string) => {
    const one = { ...jobOf(["a"], directory), warmStart: { from: directory } };
    const taken = withinRoots(resolveJob(one), { roots, tenants: {} }, tenant);
    t.is(taken.warmStart?.from, taken.checkpoint.directory);
    return taken.checkpoint.directory;
  };
  t.is(placeOf("run", "acme"), "s3://bucket/kept/acme/run");
  t.is(placeOf("s3://bucket/kept/acme/a/b/", "acme"), "s3://bucket/kept/acme/a/b");
  t.is(placeOf("acme/run"), "s3://bucket/kept/acme/run", "the operator may use all prefixes");
  const wrong = ["s3://bucket/kept/acme-2/x", "s3://bucket/kept/other/x", "s3://other/kept/acme/x"];
  for (const path of [...wrong, "../other/x", "/x", "a//b", "./a", "s3://bucket/kept/acme/../x"]) {
    t.throws(() => placeOf(path, "acme"), { instanceOf: PathForbiddenError }, path);
  }
  const tiers = resolveJob(jobOf(["a"], "run", "/tmp"));
  t.throws(() => withinRoots(tiers, { roots, tenants: {} }, "acme"), { message: /tiers/ });
  for (const root of ["s3://{tenant}/x", "gs://bucket"]) {
    t.false(rootOptions.safeParse({ checkpoints: root }).success, root);
  }
  t.false(rootOptions.safeParse({ data: "s3://bucket/x" }).success);
});

test("each listed tenant has default roots of its own; the operator has none", (t) => {
  const tenants = tenantsOf({ acme: { users: {} } });
  const of = (tenant?: string) =>
    withinRoots(resolveJob(jobOf(["a"], "run")), { roots: {}, tenants }, tenant);
  t.is(of("acme").checkpoint.directory, resolve("checkpoints/acme/run"));
  t.like(of("acme").data, { paths: [resolve("data/acme/a")] });
  t.is(of().checkpoint.directory, "run", "the operator is no tenant");
  t.throws(() => tenantsOf({ acme: { users: {} }, Acme: { users: {} } }), {
    message: /differently/,
  });
});

test("the tenant of a request must be listed, and match the user that the server names", (t) => {
  const tenants = tenantsOf({ acme: { users: {} }, other: { users: {} } });
  const asking = (subject: string, info?: unknown) => {
    const headers = { "Nats-Request-Info": info === undefined ? "x" : JSON.stringify(info) };
    return requestingTenant({ subject, headers }, tenants);
  };
  const subject = "osiris.c1.jobs.acme.list";
  t.is(asking(subject), "acme");
  t.is(asking(subject, { acc: "acme" }), "acme");
  t.is(asking(subject, { acc: "OSIRIS" }), "acme", "an admin may");
  t.is(asking("osiris.c1.jobs.list", null), undefined);
  const refused = { instanceOf: TenantRefusedError };
  t.throws(() => asking(subject, { acc: "other" }), refused);
  t.throws(() => asking("osiris.c1.jobs.list", { acc: "other" }), refused);
  t.throws(() => asking("osiris.c1.jobs.acme2.list"), refused);
});

test.serial("over NATS, large requests, foreign paths and code are refused by name", async (t) => {
  const place = directoryOf(t);
  await using cluster = await Cluster.start({
    devices: 1,
    minDevices: 2,
    roots: { data: join(place, "data"), checkpoints: join(place, "kept") },
    tenants: {
      small: { users: {}, requestBytesMax: 1024 },
      slow: { users: {}, requestsPerSecond: 1 },
    },
  });
  const { url: nats, token } = cluster;
  const clientOf = async (tenant: string) => {
    const client = await connect({ nats, tenant, ...(token ? { token } : {}) });
    t.teardown(() => client[Symbol.asyncDispose]());
    return client;
  };
  const job: JobOptions = {
    model: smallModel,
    data: smallData,
    checkpoint: { directory: "run" },
  };
  const small = await clientOf("small");
  const tables = Array.from({ length: 60 }, (_, i) => ({ name: `t${i}`, rows: 10, dim: 8 }));
  const large = { ...job, model: { ...smallModel, tables } };
  await t.throwsAsync(small.submit(large), { instanceOf: RemoteError, code: "JOB_TOO_LARGE" });
  const outside = { ...job, checkpoint: { directory: join(place, "outside") } };
  await t.throwsAsync(small.submit(outside), { instanceOf: RemoteError, code: "PATH_FORBIDDEN" });
  // Osiris's client repeats a refused request a moment later, and is served.
  const slow = await clientOf("slow");
  const run = await slow.submit(job);
  for (let i = 0; i < 3; i++) t.is((await run.status()).tenant, "slow");

  const raw = await connectRaw({ servers: nats, ...(token ? { token } : {}) });
  // Sent at once: one after another, requests of a busy machine would take seconds.
  const requests = Array.from({ length: 20 }, () =>
    raw.request("osiris.c1.jobs.slow.list", "{}", patient),
  );
  const answers = await Promise.all(requests);
  const codes = answers.map(({ headers }) => headers?.get("Nats-Service-Error-Code"));
  t.true(codes.includes("429"), codes.join());
  const code = join(place, "outside", "job.mjs");
  const proof = join(place, "outside", "ran");
  const text = `require("node:fs").writeFileSync(${JSON.stringify(proof)}, "")`;
  for (const sent of [code, text, `() => { ${text} }`, { import: code }, [text]]) {
    const answer = await raw.request(
      "osiris.c1.jobs.submit",
      JSON.stringify({ job: sent }),
      patient,
    );
    t.like(answer.json(), { error: { code: "INVALID_OPTION" } });
  }
  t.false(existsSync(proof));
  const wrongJob = async (sent: object) => {
    const answer = await raw.request(
      "osiris.c1.jobs.submit",
      JSON.stringify({ job: sent }),
      patient,
    );
    return answer.json<{ error: { code: string; problems?: readonly unknown[] } }>().error;
  };
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`option${i}`, i]));
  t.is((await wrongJob(many)).problems?.length, 100);
  // The answer repeats only the beginning of the long name.
  t.is((await wrongJob({ ["x".repeat(900_000)]: 1 })).code, "INVALID_OPTION");
  await raw.close();
  await run.cancel();
});

test.serial("a symbolic link made while a run waits leads no path out of roots", async (t) => {
  const place = directoryOf(t);
  const roots = { data: join(place, "data"), checkpoints: join(place, "kept") };
  await using cluster = await Cluster.start({ devices: 1, roots });
  const at = { nats: cluster.url, ...(cluster.token ? { token: cluster.token } : {}) };
  await using client = await connect({ ...at, tenant: "acme" });
  const job = (directory: string): JobOptions => ({
    model: smallModel,
    data: { ...smallData, cache: "cache", epochs: 1_000_000 },
    checkpoint: { directory },
  });
  const first = await client.submit(job("first"));
  const second = await client.submit(job("second"));
  symlinkSync(join(place, "outside"), join(roots.checkpoints, "acme", "second"));
  await first.cancel();
  await t.throwsAsync(second.result(), { code: "PATH_FORBIDDEN" });
  t.deepEqual(readdirSync(join(place, "outside")), []);
});

test("a job with thousands of errors is refused with a message of limited length", (t) => {
  const job = { model: smallModel, data: smallData };
  const names = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`option${i}`, i]));
  const tables = Array.from({ length: 5000 }, (_, i) => ({ name: `T${i}`, rows: -1, dim: 8 }));
  for (const wrong of [
    { ...job, ...names },
    { ...job, model: { ...smallModel, tables } },
  ]) {
    const error = t.throws(() => resolveJob(wrong), { instanceOf: InvalidOptionError });
    t.is(error.problems.length, 200);
  }
  t.is(publishedSchemas(), publishedSchemas(), "cached, because making them takes 20 ms");
});
