// The errors for a path that is no checkpoint directory.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import {
  CheckpointCorruptError,
  CheckpointMissingError,
  InputUnusableError,
} from "../../../../src/errors/errors.ts";
import { openExistingStore, openStore } from "../../../../storage/checkpoints/store/open-store.ts";
import { startDirectory } from "../../../data/data-files.ts";

test("a missing path, a file, an empty, foreign or parent directory have distinct errors", (t) => {
  const home = startDirectory(t);
  const at = (name: string) => join(home, name);
  writeFileSync(at("file"), "text");
  for (const name of ["empty", "other", "config", "cut"]) mkdirSync(at(name));
  writeFileSync(join(at("other"), "notes.txt"), "text");
  openStore({ directory: at("runs/day1"), jobIdentity: "a", jobText: "{}" });
  for (const [name, message] of [
    ["nowhere", /nowhere: there is no such directory$/],
    ["file", /file: that is a file, expected a checkpoint directory$/],
    ["empty", /empty: the directory is empty$/],
    ["other", /other: the directory has no job\.json; it holds other files$/],
    ["runs", /runs: did you mean .*runs\/day1\?$/],
  ] as const) {
    t.throws(() => openExistingStore(at(name)), { instanceOf: CheckpointMissingError, message });
  }
  writeFileSync(join(at("config"), "job.json"), '{ "model": {} }');
  const foreign = { instanceOf: InputUnusableError, message: /is no record of a checkpoint; name/ };
  t.throws(() => openExistingStore(at("config")), foreign);
  const given = { directory: at("config"), jobIdentity: "a", jobText: "{}" };
  t.throws(() => openStore(given), foreign, "a user's `job.json` is refused");
  t.is(readFileSync(join(at("config"), "job.json"), "utf8"), '{ "model": {} }', "and it stays");
  writeFileSync(join(at("cut"), "job.json"), '{ "version": 3, "jobIdentity": "a');
  t.throws(() => openExistingStore(at("cut")), { instanceOf: CheckpointCorruptError });
});

test("a job record with any flipped bit is a damaged record, not another program's file", (t) => {
  const directory = startDirectory(t);
  openStore({ directory, jobIdentity: "a", jobText: "{}" });
  const path = join(directory, "job.json");
  const bytes = readFileSync(path);
  for (let bit = 0; bit < 8 * bytes.length; bit++) {
    const flipped = Uint8Array.from(bytes);
    flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    writeFileSync(path, flipped);
    t.throws(() => openExistingStore(directory), { instanceOf: CheckpointCorruptError }, `${bit}`);
  }
});
