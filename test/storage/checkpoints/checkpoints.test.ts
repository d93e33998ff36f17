// Checkpoint directories are listed, verified, compared row by row, and restored to an older
// checkpoint.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { exportTable } from "../../../packages/formats/tables/export-table.ts";
import { importTable } from "../../../packages/formats/tables/import-table.ts";
import {
  CheckpointCorruptError,
  CheckpointMissingError,
  GenerationFencedError,
  InputUnusableError,
} from "../../../src/errors/errors.ts";
import { jobIdentity } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { withWarmStart } from "../../../storage/checkpoints/adopt-checkpoint.ts";
import { diffCheckpoints } from "../../../storage/checkpoints/diff-checkpoints.ts";
import { listCheckpoints } from "../../../storage/checkpoints/list-checkpoints.ts";
import { jobOf, openCheckpoint } from "../../../storage/checkpoints/open-checkpoint.ts";
import { planRestore, restoreCheckpoint } from "../../../storage/checkpoints/restore-checkpoint.ts";
import { decodeManifest, encodeManifest } from "../../../storage/checkpoints/store/manifest.ts";
import { openExistingStore, openStore } from "../../../storage/checkpoints/store/open-store.ts";
import { pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { verifyCheckpoints } from "../../../storage/checkpoints/verify-checkpoints.ts";
import { unseal } from "../../../storage/disk/sealed-json.ts";
import { startTrained } from "../../helpers/devices/trained.ts";
import { flipInPart, placeOfPart, writePart } from "../../helpers/stores/checkpoints.ts";
import { contentOf, dim, tables, tablesJobOf, trainedTables } from "../../helpers/stores/tables.ts";

test("checkpoints are listed newest first, with damaged ones and files outside the chain", async (t) => {
  const { directory, trained } = await trainedTables(t);
  await trained.train({ cut: 3, best: true });
  const { checkpoints, damaged, offChain } = listCheckpoints(directory);
  const manifests = openExistingStore(directory).list().manifests;
  t.deepEqual(
    checkpoints.map(({ cut, best }) => ({ cut, best })),
    [3, 2, 1].map((cut) => ({ cut, best: cut === 3 })),
  );
  t.deepEqual([damaged, offChain], [[], []]);
  for (const [i, one] of checkpoints.entries()) {
    const { sha256, modelDigest, parts } = manifests[i] ?? t.fail();
    t.like(one, { manifest: sha256, digest: `sha256:${modelDigest}`, parts: parts.length });
    t.is(one.parent, checkpoints[i + 1]?.manifest ?? null);
    t.is(
      one.bytes,
      parts.reduce((sum, { bytes }) => sum + bytes, 0),
    );
    t.true(Math.abs(Date.now() - (one.committedAtMs ?? 0)) < 600_000);
  }
  rmSync(placeOfPart(directory, { cut: 2, generation: 1 }, "dense").path);
  realDisk.makeDirectory(join(directory, "checkpoints", "000000009-g000001"));
  const after = listCheckpoints(directory);
  t.deepEqual(
    after.checkpoints.map(({ cut }) => cut),
    [3, 1],
  );
  t.regex(after.damaged[0]?.path ?? "", /000000002-g000001.pack-dense-00000$/);
  t.deepEqual(after.offChain, ["000000009-g000001"]);
  for (const cut of [1, 3]) {
    const name = `00000000${cut}-g000001`;
    writeFileSync(join(directory, "checkpoints", name, "manifest.json"), "{}");
  }
  const error = t.throws(() => openCheckpoint(directory), { instanceOf: CheckpointCorruptError });
  t.regex(error?.message ?? "", /^Checkpoint \S+manifest\.json is damaged: it is cut short$/);
  t.throws(() => listCheckpoints(join(directory, "none")), { instanceOf: CheckpointMissingError });
});

test("a part name that leads out of its checkpoint is damage: warm start and pin write nothing", async (t) => {
  const { directory, home, trained } = await trainedTables(t);
  const { job } = trained;
  const { manifests } = openExistingStore(directory).list();
  for (const name of ["../../../victim.txt", "/etc/victim", "..", "manifest.json", "a/b", ""]) {
    for (const { sha256: _, ...manifest } of manifests) {
      const [first] = manifest.parts;
      const parts = first === undefined ? [] : [...manifest.parts, { ...first, name }];
      const path = pathsOf(directory).manifest(manifest.cut, manifest.generation);
      const sealed = encodeManifest({ ...manifest, parts });
      t.throws(() => decodeManifest(sealed.bytes, path), {
        instanceOf: CheckpointCorruptError,
        message: /parts\.\d+: expected a plain lower-case file name/,
      });
      writeFileSync(path, sealed.bytes);
    }
    writeFileSync(join(home, "victim.txt"), "kept");
    const to = { ...job, checkpoint: { ...job.checkpoint, directory: join(home, "next") } };
    t.throws(
      () => withWarmStart({ ...to, warmStart: { from: directory } } as typeof job),
      undefined,
      name,
    );
    t.deepEqual(listCheckpoints(directory).checkpoints, []);
    t.is(readFileSync(join(home, "victim.txt"), "utf8"), "kept");
  }
});

test("verification finds a flipped byte, and a digest that does not match the parts", async (t) => {
  const { home, directory, manifest } = await trainedTables(t);
  const whole = await verifyCheckpoints(directory);
  t.true(whole.isIntact);
  t.deepEqual(
    whole.checkpoints.map(({ cut, reason }) => ({ cut, reason })),
    [2, 1].map((cut) => ({ cut, reason: undefined })),
  );
  // A manifest with another digest than the model of its parts, while every file matches its hash.
  const store = openExistingStore(directory);
  const { generation } = store.beginGeneration();
  const parts = manifest.parts.map(({ name }) =>
    writePart(store, { generation, cut: 3, name }, store.readWholePart(manifest, name)),
  );
  const lying = { ...manifest, generation, cut: 3, parts, modelDigest: "0".repeat(64) };
  const { sha256 } = store.commit(lying);
  await store.verify(store.latest() ?? manifest);
  const lied = await verifyCheckpoints(directory);
  t.false(lied.isIntact);
  const wrong = new RegExp(`digest sha256:${manifest.modelDigest}, expected sha256:000`);
  t.regex(lied.checkpoints[0]?.reason ?? "", wrong);
  t.is(lied.checkpoints[1]?.reason, undefined);
  await t.throwsAsync(restoreCheckpoint(directory, "ff"), { instanceOf: CheckpointMissingError });

  for (const name of ["dense", manifest.parts.at(-1)?.name ?? ""]) {
    flipInPart(directory, manifest, name, 30);
    const { checkpoints, isIntact } = await verifyCheckpoints(directory, {
      manifest: manifest.sha256,
    });
    t.false(isIntact);
    t.is(checkpoints.length, 1);
    t.regex(checkpoints[0]?.reason ?? "", /its hash is [0-9a-f]{64}, expected/);
    const damaged = restoreCheckpoint(directory, manifest.sha256);
    await t.throwsAsync(damaged, { instanceOf: CheckpointCorruptError });
    flipInPart(directory, manifest, name, 30);
  }
  t.true((await verifyCheckpoints(directory, { manifest: manifest.sha256 })).isIntact);
  t.is(store.latest()?.sha256, sha256, "a restore that failed has changed nothing");
  rmSync(placeOfPart(directory, manifest, "dense").path);
  const { damaged, isIntact } = await verifyCheckpoints(directory);
  t.false(isIntact);
  t.is(damaged.length, 1);
  t.true(readdirSync(home).includes("checkpoints"));
});

test("a checkpoint that its run removes while the directory is read is not damaged", async (t) => {
  const { directory, trained } = await trainedTables(t);
  const { manifest, checkpoint } = pathsOf(directory);
  const remove = (cut: number) => {
    rmSync(manifest(cut, 1), { force: true });
    rmSync(checkpoint(cut, 1), { recursive: true, force: true });
  };
  const onProgress = () => remove(1);
  const { checkpoints, isIntact } = await verifyCheckpoints(directory, { onProgress });
  t.true(isIntact);
  t.deepEqual(
    checkpoints.map(({ cut }) => cut),
    [2],
  );
  await trained.train({ cut: 3 });
  const open: typeof realDisk.open = (path, mode) => {
    if (path === manifest(2, 1)) remove(2);
    return realDisk.open(path, mode);
  };
  const listed = listCheckpoints(directory, { disk: { ...realDisk, open } });
  t.deepEqual([listed.checkpoints.map(({ cut }) => cut), listed.damaged], [[3], []]);
  await t.throwsAsync(verifyCheckpoints(directory, { onProgress: () => remove(3) }), {
    instanceOf: CheckpointMissingError,
  });
});

test("two checkpoints are compared row by row", async (t) => {
  const { home, directory, manifest } = await trainedTables(t);
  const [newest, before] = listCheckpoints(directory).checkpoints;
  const [from, to] = [before?.manifest ?? "", newest?.manifest ?? ""];
  const rowsOf = async (hash: string, name: string) => {
    const path = join(home, "rows.csv");
    await exportTable(directory, name, path, { manifest: hash, state: true });
    return contentOf(path);
  };
  const found = await diffCheckpoints(directory, from, to);
  t.like(found, { from: { cut: 1 }, to: { cut: 2 }, isEqual: false });
  for (const [table, { name }] of tables.entries()) {
    const [a, b] = [await rowsOf(from, name), await rowsOf(to, name)];
    const common = a.ids.filter((id) => b.ids.includes(id));
    const width = dim + 1;
    const ofRow = ({ ids, vectors, state }: typeof a, id: number) => {
      const at = ids.indexOf(id);
      const own = vectors.slice(at * dim, (at + 1) * dim);
      return [...own, ...state.slice(at * width, (at + 1) * width)];
    };
    const changed = common.filter((id) => ofRow(a, id).join() !== ofRow(b, id).join());
    t.true(changed.length > 0);
    const difference = found.tables[table];
    const gone = a.ids.length - common.length;
    const born = b.ids.length - common.length;
    t.like(difference, { name, common: common.length, changed: changed.length, born, gone });
    const changes = common.map((id) => {
      const [old, now] = [a, b].map((own) => {
        return new Float32Array(Uint32Array.from(ofRow(own, id).slice(0, dim)).buffer);
      });
      return Math.max(...[...(old ?? [])].map((value, c) => Math.abs((now?.[c] ?? 0) - value)));
    });
    const largest = Math.max(...changes);
    t.deepEqual(difference?.largest, { change: largest, row: common[changes.indexOf(largest)] });
  }
  t.true(found.dense.changed > 0 && found.dense.changed <= found.dense.weights);
  t.true(found.dense.largest > 0 && found.dense.state > 0);

  const same = await diffCheckpoints(directory, to, to);
  t.true(same.isEqual);
  t.true(same.tables.every(({ changed, born, gone }) => changed + born + gone === 0));
  t.like(same.dense, { changed: 0, largest: 0, state: 0 });
  t.deepEqual(same.tables[0]?.largest, undefined);

  // Imports one table without optimizer state into another directory.
  const csv = join(home, "whole.csv");
  await exportTable(directory, "whole", csv);
  const out = join(home, "imported");
  const { manifest: other } = await importTable(directory, "whole", { from: csv, out });
  const imported = await diffCheckpoints(directory, manifest.sha256, other, { other: out });
  t.deepEqual(
    imported.tables.map(({ changed, common, largest }) => [changed === common, largest]),
    tables.map(({ name }) => [name === "whole", undefined]),
  );
  t.false(imported.isEqual);

  const { model, ...rest } = tablesJobOf(home, "smaller");
  const smaller = { ...model, tables: model.tables?.slice(1) ?? [] };
  const foreign = await startTrained({ ...rest, model: smaller });
  const { sha256 } = await foreign.train({ cut: 1 });
  const unlike = diffCheckpoints(directory, to, sha256, { other: join(home, "smaller") });
  await t.throwsAsync(unlike, { instanceOf: InputUnusableError, message: /tables, layers/ });
});

test("restoring a checkpoint makes it the newest, and fences a process that still writes", async (t) => {
  const { directory, manifest, trained } = await trainedTables(t);
  const store = openExistingStore(directory);
  const newest = await trained.train({ cut: 3 });
  t.deepEqual(
    planRestore(directory, manifest.sha256.slice(0, 10)).givenUp.map(({ cut }) => cut),
    [3],
  );
  t.is(store.latest()?.sha256, newest.sha256, "a plan changes nothing");
  const same = await restoreCheckpoint(directory, newest.sha256);
  t.like(same, { generation: undefined, givenUp: [] });
  const report = await restoreCheckpoint(directory, manifest.sha256);
  t.like(report, { generation: 2, checkpoint: { cut: 2, manifest: manifest.sha256 } });
  t.is(store.latest()?.sha256, manifest.sha256);
  const { checkpoints, offChain } = listCheckpoints(directory);
  t.deepEqual(
    checkpoints.map(({ cut }) => cut),
    [2, 1],
  );
  t.deepEqual(offChain, ["000000003-g000001"]);
  await t.throwsAsync(trained.train({ cut: 4 }), { instanceOf: GenerationFencedError });
  const first = checkpoints[1]?.manifest ?? "";
  t.is((await restoreCheckpoint(directory, first)).generation, 3);
  t.deepEqual(
    listCheckpoints(directory).checkpoints.map(({ cut }) => cut),
    [1],
  );
  // A checkpoint that the restore gave up cannot be restored any more.
  await t.throwsAsync(restoreCheckpoint(directory, newest.sha256), {
    instanceOf: CheckpointMissingError,
  });
  const own = openStore({
    directory,
    jobIdentity: jobIdentity(trained.job),
    jobText: JSON.stringify(trained.job),
  });
  t.throws(() => own.beginGeneration(newest), { instanceOf: CheckpointMissingError });
});

test("a job or record that is not valid JSON is damage with its path, even with a valid hash", (t) => {
  const damaged = { instanceOf: CheckpointCorruptError, message: /^Checkpoint here is damaged: / };
  t.throws(() => jobOf({ directory: "here", jobText: "{" }), damaged);
  const text = '{ x\n  "sha256": ""\n}\n';
  const sha256 = createHash("sha256").update(text).digest("hex");
  const sealed = text.replace('""', `"${sha256}"`);
  t.throws(() => unseal(new TextEncoder().encode(sealed), "here"), damaged);
});
