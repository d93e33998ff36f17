// Persisted rows between two generations: at most one generation takes them, under the stamp of its
// checkpoint.

import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import {
  openTierStore,
  persistedStores,
  type TierRecordShard,
  type TierStore,
  type TierStoreOptions,
  tierDirectory,
} from "../../../storage/tiers/tier-store.ts";
import { startDirectory } from "../../data/data-files.ts";
import { rocksDb, storeNeeds, testIf } from "../../helpers/needs.ts";
import { readRows, recordOf, recordsOf } from "../../suites/records.ts";

const user: TierRecordShard = {
  name: "user",
  rows: 1000,
  recordBytes: 36,
  rowsMax: 64,
  keep: "durable",
};
const item: TierRecordShard = { ...user, name: "item", keep: "spill" };
const shards = [item, user];
const rows = Int32Array.from({ length: 50 }, (_, i) => 3 * i);
const [older, newer] = ["a".repeat(64), "b".repeat(64)];

/** For each store kind, the other one. */
const others = { file: "rocksdb", rocksdb: "file" } as const;

for (const kind of ["file", "rocksdb"] as const) {
  /**
   * A directory for one test, and `open`: a generation opens the rows persisted there for the
   * checkpoint of `stamp`.
   */
  const start = (t: ExecutionContext) => {
    const root = startDirectory(t);
    const placeOf = (generation: number) => ({ root, owner: "c0ffee", generation, device: 0 });
    return {
      root,
      directoryOf: (generation: number) => tierDirectory(placeOf(generation)),
      open: (generation: number, stamp?: string, asked: TierStoreOptions["kind"] = kind) =>
        openTierStore({ kind: asked, shards, stamp, disk: realDisk, place: placeOf(generation) }),
    };
  };

  const write = (store: TierStore, version: number) => {
    for (const [at, shard] of shards.entries()) {
      store.write(at, rows, recordsOf(shard, rows, version));
    }
  };

  const readAll = (store: TierStore) => readRows(store, 1, user, rows);
  const allOf = (version: number) => Array.from(rows, (row) => recordOf(user, row, version));

  testIf(...storeNeeds(kind))(
    `${kind}: the next generation has the durable rows, and no later one has`,
    async (t) => {
      const { root, open } = start(t);
      const first = await open(1);
      t.is(first.found, undefined, "no persisted rows yet");
      write(first, 1);
      first.sync(older);
      t.is(await first.persist(), rows.length);
      await first.close();
      const second = await open(2, older);
      t.deepEqual(second.found, { rows: rows.length });
      t.deepEqual([0, 1].map(second.isKept), [false, true]);
      t.is(second.count(0), 0);
      t.deepEqual(readAll(second), allOf(1));
      const third = await open(3, older);
      t.like(third.found, { rows: 0, reason: "the tier directory has no rows under its stamp" });
      t.is(third.count(1), 0);
      await third.close();
      await second.close().catch((error: unknown) => t.like(error, { code: "TIER_WRITE" }));
      t.deepEqual(
        readdirSync(root).filter((name) => name.includes("kept")),
        [],
      );
    },
  );

  testIf(...storeNeeds(kind))(
    `${kind}: with auto, the next generation uses the store that has the rows`,
    async (t) => {
      const { root, open } = start(t);
      const first = await open(1);
      t.is(first.kind, kind);
      write(first, 1);
      first.sync(older);
      await first.persist();
      await first.close();
      t.deepEqual(persistedStores(realDisk, { root, owner: "c0ffee" }), [kind]);
      const error = await t.throwsAsync(open(2, older, others[kind]), { code: "INVALID_OPTION" });
      t.true(error?.message.startsWith(`Expected \`tiers.ssd\` to be left out, or \`${kind}\`, `));
      const third = await open(3, older, "auto");
      t.is(third.kind, kind);
      t.deepEqual(third.found, { rows: rows.length });
      t.deepEqual(readAll(third), allOf(1));
      await third.close();
      t.deepEqual(persistedStores(realDisk, { root, owner: "c0ffee" }), []);
    },
  );

  testIf(...storeNeeds(kind))(
    `${kind}: rows that a fenced generation persists late keep its own stamp`,
    async (t) => {
      const { root, open } = start(t);
      const zombie = await open(1);
      write(zombie, 1);
      const next = await open(2);
      write(next, 2);
      next.sync(newer);
      await next.persist();
      t.throws(() => zombie.sync(older), { code: "TIER_WRITE" }, "its directory is gone");
      await zombie.persist();
      const third = await open(3, newer);
      t.deepEqual(third.found, { rows: rows.length });
      t.deepEqual(readAll(third), allOf(2));
      t.deepEqual(
        readdirSync(root).filter((name) => name.includes("kept")),
        [],
      );
      for (const store of [zombie, next, third]) await store.close().catch(() => {});
    },
  );

  testIf(...storeNeeds(kind))(
    `${kind}: the first write removes the stamp, before any row changes`,
    async (t) => {
      const { root, open, directoryOf } = start(t);
      const first = await open(1);
      write(first, 1);
      first.sync(older);
      await first.persist();
      const [name = ""] = readdirSync(root).filter((one) => one.includes("kept"));
      const second = await open(2, older);
      second.write(1, Int32Array.of(3), recordsOf(user, Int32Array.of(3), 9));
      // A crash at this point leaves the rows on the disk for the next generation.
      cpSync(join(directoryOf(2), "durable"), join(root, "crashed"), { recursive: true });
      await second.close();
      renameSync(join(root, "crashed"), join(root, name));
      const third = await open(3, older);
      t.like(third.found, { rows: 0, reason: "the persisted rows have no stamp" });
      t.is(third.count(1), 0);
      await third.close();
    },
  );

  testIf(...storeNeeds(kind))(
    `${kind}: rows that changed since the stamp are not persisted`,
    async (t) => {
      const { root, open } = start(t);
      const store = await open(1);
      write(store, 1);
      t.is(await store.persist(), 0);
      await store.close();
      t.deepEqual(
        readdirSync(root).filter((name) => name.includes("kept")),
        [],
      );
    },
  );
}

test("with `auto` and no persisted rows, a tier uses RocksDB; on a simulated disk files", async (t) => {
  const root = startDirectory(t);
  const place = { root, owner: "c0ffee", generation: 1, device: 0 };
  const options = { kind: "auto", shards, place, stamp: undefined } as const;
  const real = await openTierStore({ ...options, disk: realDisk });
  t.is(real.kind, rocksDb.isMet() ? "rocksdb" : "file");
  await real.close();
  const simulated = await openTierStore({ ...options, disk: new SimulatedDisk() });
  t.is(simulated.kind, "file");
  await simulated.close();
});

testIf(rocksDb)(
  "without a RocksDB binary a tier uses files, and says why it has no rows",
  async (t) => {
    const root = startDirectory(t);
    const options = { shards, place: { root, owner: "c0ffee", generation: 1, device: 0 } };
    const first = await openTierStore({
      ...options,
      kind: "rocksdb",
      stamp: undefined,
      disk: realDisk,
    });
    first.write(1, rows, recordsOf(user, rows, 1));
    first.sync(older);
    await first.persist();
    await first.close();
    const url = (path: string) => JSON.stringify(new URL(`../../../${path}`, import.meta.url));
    const again = { ...options, kind: "auto", stamp: older };
    const script = `
    const { openTierStore } = await import(${url("storage/tiers/tier-store.js")});
    const { realDisk } = await import(${url("src/ports/disk.js")});
    const store = await openTierStore({ ...${JSON.stringify(again)}, disk: realDisk });
    process.stdout.write(JSON.stringify([store.kind, store.found]));
    await store.close();`;
    const env = { ...process.env, npm_config_arch: "mips" }; // The binding reads this variable.
    const words = ["--input-type=module", "-e", script];
    const { stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8", env });
    const reason = "they are in rocksdb, which this machine cannot open";
    t.is(stdout, JSON.stringify(["file", { rows: 0, reason }]), stderr);
  },
);

test("a tier in host memory touches no disk", async (t) => {
  const touched = () => t.fail("the store uses the disk");
  const disk = new Proxy({} as Disk, { get: () => touched });
  const place = { root: "/tiers", owner: "c0ffee", generation: 2, device: 0 };
  const shards = [{ name: "a", rows: 2 ** 31 - 1, recordBytes: 36, rowsMax: 9, keep: "spill" }];
  const store = await openTierStore({
    ...{ kind: "memory", place, stamp: older, disk },
    shards: shards as never,
  });
  const some = Int32Array.of(0, 500, 2 ** 31 - 2);
  store.write(0, some, new Uint8Array(3 * 36).fill(7));
  const [records, found] = [new Uint8Array(3 * 36), new Uint8Array(3)];
  store.read(0, some, records, found);
  t.deepEqual([[...found], new Set(records)], [[1, 1, 1], new Set([7])]);
  store.sync(newer);
  await store.close();
});
