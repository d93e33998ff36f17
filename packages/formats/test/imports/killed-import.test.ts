// An import whose process is killed at any disk call leaves no checkpoint that a reader accepts;
// the same command begins anew and makes the complete model.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { CheckpointMissingError, InputUnusableError } from "../../../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../../../src/ports/disk.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { pytorchFile } from "../../../../test/helpers/models/pytorch.ts";
import { stride } from "../../../../test/helpers/thinned.ts";
import { importModel } from "../../imports/import-model.ts";

/** Disk calls that change the disk. */
const changes = ["open", "rename", "remove", "makeDirectory", "syncDirectory"] as const;

/** The disk of a process that is killed before change number `at`: every later change fails. */
function killedAt(at: number): Disk & { count(): number } {
  let done = 0;
  const once = <Args extends unknown[], Result>(call: (...args: Args) => Result) => {
    return (...args: Args): Result => {
      if (done++ >= at) throw new Error("killed");
      return call(...args);
    };
  };
  const wrapped = Object.fromEntries(
    changes.map((name) => [name, once(realDisk[name] as (...args: unknown[]) => unknown)]),
  );
  return { ...realDisk, ...wrapped, writer: "a process that is gone", count: () => done };
}

const later: Disk = { ...realDisk, isGone: (writer) => writer === "a process that is gone" };

test("an import that is killed at any call leaves nothing half-written", async (t) => {
  const home = startDirectory(t);
  const file = pytorchFile("dlrm.pt");
  const whole = killedAt(Number.POSITIVE_INFINITY);
  const { digest } = await importModel(file, { out: join(home, "whole"), disk: whole });
  t.deepEqual(readdirSync(join(home, "whole")), ["checkpoints", "generations", "job.json"]);
  let missing = 0;
  let marked = 0;
  t.true(whole.count() > 30, `${whole.count()}`);
  const every = stride("calls that an import is killed at", 4);
  for (let at = 1; at < whole.count(); at += every) {
    const out = join(home, `killed-${at}`);
    await t.throwsAsync(importModel(file, { out, disk: killedAt(at) }), undefined, `${at}`);
    const before = await loadModel(out).catch((error: unknown) => error);
    if (!(before instanceof Error)) {
      // The kill came after the commit: the directory has the whole model, and keeps it.
      t.is((before as { digest: string }).digest, digest);
      const message = /Expected .* to be new or empty/;
      const again = importModel(file, { out, disk: later });
      await t.throwsAsync(again, { instanceOf: InputUnusableError, message });
      t.false(readdirSync(out).includes("unfinished"));
      continue;
    }
    t.true(before instanceof CheckpointMissingError, `${at}: ${before}`);
    missing++;
    if (realDisk.list(out).includes("unfinished")) marked++;
    const again = await importModel(file, { out, disk: later });
    t.is(again.digest, digest, `${at}`);
    t.deepEqual(readdirSync(out), ["checkpoints", "generations", "job.json"]);
  }
  t.true(every * missing > 30 && every * marked > 20, `${missing} ${marked}`);
});

test("the directory of an import under way, or with foreign files, is left alone", async (t) => {
  const out = startDirectory(t);
  writeFileSync(join(out, "unfinished"), realDisk.writer);
  writeFileSync(join(out, "mine"), "my own");
  const busy = importModel(pytorchFile("dlrm.pt"), { out });
  const message = /another process makes a checkpoint there; or remove it, if none does/;
  await t.throwsAsync(busy, { instanceOf: InputUnusableError, message });
  t.is(readFileSync(join(out, "mine"), "utf8"), "my own");
});
