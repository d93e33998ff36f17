// The encoding of columns in a first job loses no value: ids, quantities, and columns in a form
// that no reader supports.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { prepareCache } from "../../../../src/data/cache/prepare-cache.ts";
import { murmurHash3 } from "../../../../src/data/murmur-hash.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { shapesOf } from "../../../../src/model/features.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { assignRoles, firstJobOf, profileColumns } from "../../index.ts";
import { jobOf, rowsOf } from "./made-jobs.ts";

test("of two label numbers the larger is positive, and the reason says which one", async (t) => {
  const directory = startDirectory(t);
  const rated = `rating,item_id\n${rowsOf(300, (i) => `${i % 3 === 0 ? 5 : 1},${i % 7}`)}\n`;
  t.like(await jobOf(directory, rated), { data: { positive: 5 } });
  const data = await profileColumns([join(directory, "data.csv")]);
  t.is(assignRoles(data)[0]?.why, "1 and 5; 5 is the positive one, 33.3 % of the rows");
  t.like(await jobOf(directory, rated, { positive: "1" }), { data: { positive: 1 } });
});

test("an id column is left out only if each row that was read has a distinct value", async (t) => {
  const directory = startDirectory(t);
  const stream = new RandomStream(3, purposes.sampleOrder);
  const path = join(directory, "users.csv");
  const rows = rowsOf(3000, (i) => `${i % 2},${stream.below(6000)},${i},${stream.below(5)}`);
  writeFileSync(path, `click,user_id,request_id,place\n${rows}\n`);
  for (const rowsMax of [1000, 50_000]) {
    const found = assignRoles(await profileColumns([path], { rowsMax }));
    const roles = Object.fromEntries(found.map(({ profile, role }) => [profile.name, role]));
    t.like(roles, { user_id: "categorical", request_id: "ignored" }, `${rowsMax} rows`);
  }
  const kept = assignRoles(await profileColumns([path]), { features: ["request_id"] });
  t.is(kept[2]?.role, "categorical");
});

test("12 and 12.0 are one id, with a vocabulary and hashed", async (t) => {
  const directory = startDirectory(t);
  for (const users of [40, 3000]) {
    const digests: string[] = [];
    const stream = new RandomStream(users, purposes.sampleOrder);
    const ids = Array.from({ length: 4000 }, () => 1_000_000 + 7 * stream.below(users));
    for (const end of ["", ".0"]) {
      const path = join(directory, `${users}${end}.csv`);
      const rows = ids.map((id, i) => `${i % 2},${i % 9 === 0 ? "" : `${id}${end}`}`);
      writeFileSync(path, `click,user\n${rows.join("\n")}\n`);
      const data = await profileColumns([path]);
      const home = join(directory, `v${users}${end}`);
      const { job, vocabularies } = firstJobOf(data, assignRoles(data), { vocabularies: home });
      t.is(vocabularies.length, users === 40 ? 1 : 0);
      mkdirSync(home);
      for (const { path: file, bytes } of vocabularies) writeFileSync(file, bytes);
      const resolved = resolveJob(job);
      const { digest, values } = await prepareCache(
        { ...resolved.data, cache: join(directory, "cache") },
        shapesOf(resolved.model),
        realDisk,
      );
      digests.push(digest);
      t.is(values?.length, users === 40 ? 0 : 1, "hashed ids may share rows");
      t.true(values?.every(({ shared, values: all }) => shared < 0.2 * all));
    }
    t.is(digests[0], digests[1], `${users} users`);
  }
});

test("the range of a quantity decides: logarithm, standardised, or unchanged", async (t) => {
  const directory = startDirectory(t);
  const rows = rowsOf(2000, (i) => {
    const counted = i % 40 === 0 ? -2 : (i * i) % 5334;
    const gap = i % 10 === 0 ? "" : (i % 7) + 0.5;
    return [i % 2, counted, 1e6 + (i % 500) / 2, 3000 * Math.sin(i), gap].join(",");
  });
  const job = await jobOf(directory, `click,I2,far,both,near\n${rows}\n`);
  const { dense, transforms } = job.data as {
    readonly dense: readonly { readonly column: string }[];
    readonly transforms: readonly { readonly over: number }[];
  };
  t.deepEqual(dense, [
    { column: "I2", log: true },
    { column: "far", log: true },
    { column: "both_scaled" },
    { column: "near", missing: "indicator" },
  ] as typeof dense);
  const values = Array.from({ length: 2000 }, (_, i) => 3000 * Math.sin(i));
  const mean = values.reduce((sum, one) => sum + one, 0) / 2000;
  const over = Math.sqrt(values.reduce((sum, one) => sum + (one - mean) ** 2, 0) / 2000);
  t.true(Math.abs((transforms[0]?.over ?? 0) / over - 1) < 1e-5);
  t.is((job.model as { readonly dense?: number }).dense, 5);
});

test("times, Python lists and prices with `$` are ignored, with a reason, and not taken for ids", async (t) => {
  const directory = startDirectory(t);
  const rows = rowsOf(300, (i) => {
    const price = `$${i}.50`;
    const list = `"[${i % 9}, ${i % 7}]"`;
    return [
      i % 2,
      price,
      list,
      `0${1 + (i % 9)}/31/2026 12:00`,
      1.7e12 + 1000 * i,
      "New York",
      i % 5,
    ].join(",");
  }).replaceAll("New York,1", "San José,1");
  writeFileSync(join(directory, "a.csv"), `click,price,last,dt,event_ts,city,item_id\n${rows}\n`);
  const found = assignRoles(await profileColumns([join(directory, "a.csv")]));
  const reasons = Object.fromEntries(
    found.map(({ profile, role, why }) => [profile.name, `${role}: ${why}`]),
  );
  t.regex(reasons.price ?? "", /^ignored: numbers with signs or commas/);
  t.regex(reasons.last ?? "", /^ignored: lists in Python's notation/);
  t.regex(reasons.dt ?? "", /^ignored: times in another form than ISO 8601/);
  t.regex(reasons.event_ts ?? "", /^time: a time, as numbers/);
  t.regex(reasons.city ?? "", /^categorical: text, 2 different$/);
});

test("hashed columns of few texts have enough rows that each value has its own", async (t) => {
  const directory = startDirectory(t);
  const text = `click,device,user\n${rowsOf(4000, (i) => `${i % 2},d${i % 300},u${(i * i) % 3989}`)}\n`;
  const { model } = await jobOf(directory, text);
  const { tables } = model as { readonly tables: readonly { readonly rows: number }[] };
  const [device = 0, user = 0] = tables.map(({ rows }) => rows);
  const rowsTaken = new Set(
    Array.from({ length: 300 }, (_, i) => murmurHash3(`d${i}`, 0) % (device - 1)),
  );
  t.is(rowsTaken.size, 300);
  t.true(user >= 10 * 1995 && user <= 20 * 1995 * 2, `${user} rows for about 2,000 users`);
});
