// Paths of data that stand for several files: directories and patterns.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { filesOf } from "../../src/data/text/files.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { startDirectory } from "./data-files.ts";

test("directories and patterns stand for their files, sorted, in the order of the paths", (t) => {
  const home = startDirectory(t);
  mkdirSync(join(home, "days", "below"), { recursive: true });
  mkdirSync(join(home, "none"));
  for (const name of ["day-2.csv", "day-10.csv", "day-1.csv", ".hidden", "day+3.csv", "notes"]) {
    writeFileSync(join(home, "days", name), "");
  }
  const days = (...names: string[]) => names.map((name) => join(home, "days", name));
  const found = (...paths: string[]) => filesOf(paths.map((path) => join(home, path)));
  t.deepEqual(found("days/day-*.csv"), days("day-1.csv", "day-10.csv", "day-2.csv"));
  t.deepEqual(found("days/day-?.csv"), days("day-1.csv", "day-2.csv"));
  t.deepEqual(found("days/day+*"), days("day+3.csv"), "other signs mean themselves");
  t.deepEqual(
    found("days/notes", "days"),
    days("notes", "day+3.csv", "day-1.csv", "day-10.csv", "day-2.csv", "notes"),
  );
  t.deepEqual(found("nowhere.csv"), [join(home, "nowhere.csv")], "told when it is read");
  for (const [path, message] of [
    ["days/night-*.csv", /^Cannot read the data: No file matches .*night-\*\.csv$/],
    ["none", /^Cannot read the data: .*none has no file in it$/],
    ["nowhere/*.csv", /nowhere/],
  ] as const) {
    t.throws(() => found(path), { instanceOf: InputUnusableError, message });
  }
});
