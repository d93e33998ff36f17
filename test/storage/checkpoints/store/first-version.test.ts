// Checkpoint directories that an earlier Osiris wrote, with a file for each part
// (test/fixtures/checkpoints): they verify, load, and are the base of new increments.

import { cpSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { encodeRows } from "../../../../src/embedding/checkpoint/rows-part.ts";
import { CheckpointCorruptError } from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { listCheckpoints } from "../../../../storage/checkpoints/list-checkpoints.ts";
import { restoreCheckpoint } from "../../../../storage/checkpoints/restore-checkpoint.ts";
import { openExistingStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { createSaving } from "../../../../storage/checkpoints/store/part-writer.ts";
import { verifyCheckpoints } from "../../../../storage/checkpoints/verify-checkpoints.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../data/data-files.ts";
import { flipByte, placeOfPart } from "../../../helpers/stores/checkpoints.ts";

function copyOf(t: ExecutionContext): string {
  const home = startDirectory(t);
  const directory = join(home, "checkpoints");
  cpSync("test/fixtures/checkpoints/version-1", directory, { recursive: true });
  return directory;
}

test("a checkpoint of version 1 verifies, loads, and a damaged part of it is named", async (t) => {
  const directory = copyOf(t);
  const { checkpoints, damaged } = listCheckpoints(directory);
  t.deepEqual([checkpoints.map(({ cut }) => cut), damaged], [[3, 2], []]);
  t.true((await verifyCheckpoints(directory)).isIntact);
  await using model = await loadModel(directory, { arithmetic: "auto" });
  t.is(model.digest, checkpoints[0]?.digest ?? "");
  const { path, at, bytes } = placeOfPart(directory, { cut: 2, generation: 1 }, "table-00001");
  t.true(path.endsWith("table-00001"));
  flipByte(realDisk, path, at + bytes - 1);
  const loading = loadModel(directory, { arithmetic: "auto" });
  await t.throwsAsync(loading, { instanceOf: CheckpointCorruptError, message: /table-00001/ });
});

test("increments in packs rest on a checkpoint of version 1, which is kept as their base", async (t) => {
  const directory = copyOf(t);
  const store = openExistingStore(directory);
  const { generation, latest } = store.beginGeneration();
  if (latest === undefined) throw new Error("There is no checkpoint");
  const differential = "consecutive";
  const saving = createSaving({ store, generation, owner: "d0", differential, manifest: latest });
  saving.begin(4, "dense", true);
  for (const piece of store.readPart(latest, "dense")) saving.write(piece);
  saving.end([]);
  for (const name of ["table-00000", "table-00001"]) {
    saving.begin(4, name, false);
    for await (const piece of encodeRows(4, 1, [], "float32")) saving.write(piece);
    saving.end([]);
  }
  const parts = saving.finish().map(({ leaves: _, ...part }) => part);
  t.deepEqual(
    parts.map(({ base }) => base.map(({ cut, file, at }) => [cut, file, at])),
    [
      [],
      ...["table-00000", "table-00001"].map((file) => [
        [2, file, 0],
        [3, file, 0],
      ]),
    ],
  );
  const added = store.commit({ ...latest, generation, cut: 4, parts });
  t.deepEqual(await store.collect({ generation, keep: 1 }), []);
  t.true((await verifyCheckpoints(directory)).isIntact, "rows and digest are unchanged");
  const first = listCheckpoints(directory).checkpoints.at(-1)?.manifest ?? "";
  const restored = await restoreCheckpoint(directory, first);
  t.deepEqual(
    restored.givenUp.map(({ manifest }) => manifest),
    [added.sha256, latest.sha256],
  );
});
