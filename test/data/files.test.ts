// Data paths that name several files: directories and patterns.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { filesOf, tableFilesOf } from "../../src/data/files.ts";
import { matchesName, NameCount } from "../../src/data/remote/addresses.ts";
import { isMeant } from "../../src/data/remote/s3-list.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { startDirectory } from "./data-files.ts";

test("directories and patterns expand to their files, sorted, in the order of the paths", (t) => {
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
  t.deepEqual(found("days/day+*"), days("day+3.csv"), "`+` is not special");
  t.deepEqual(
    found("days/notes", "days"),
    days("notes", "day+3.csv", "day-1.csv", "day-10.csv", "day-2.csv", "notes"),
  );
  t.deepEqual(found("nowhere.csv"), [join(home, "nowhere.csv")], "fails when it is read");
  for (const [path, message] of [
    ["days/night-*.csv", /^Cannot read the data: No file matches .*night-\*\.csv$/],
    ["none", /^Cannot read the data: .*none has no file in it$/],
    ["nowhere/*.csv", /nowhere/],
  ] as const) {
    t.throws(() => found(path), { instanceOf: InputUnusableError, message });
  }
});

test("files of a directory are read in the order in which an object store lists them", (t) => {
  const home = startDirectory(t);
  // By UTF-16 units the second name would come first, by UTF-8 bytes the first one does.
  const names = ["\uFF5E.csv", "\u{1F600}.csv"];
  for (const name of names) writeFileSync(join(home, name), "");
  t.deepEqual(
    filesOf([home]),
    names.map((name) => join(home, name)),
  );
});

test("a pattern matches the names that Python's `fnmatch` matches", (t) => {
  // Python: [(p, n, fnmatch.fnmatchcase(n, p)) for p, n in …].
  const cases: readonly (readonly [pattern: string, name: string, isMeant: boolean])[] = [
    ...[["*.csv", "a.csv", true] as const, ["*.csv", "a.csvx", false] as const],
    ...[["a*b*c", "aXbYbZc", true] as const, ["a*b*c", "aXcYb", false] as const],
    ...[["?", "é", true] as const, ["?", "", false] as const, ["*", "", true] as const],
    ...[["**", "x", true] as const, ["a?c*", "abc", true] as const],
    ...[["*a*a*", "bab", false] as const, ["part-*-?.csv", "part-0-1-2.csv", true] as const],
    ...[["x.y+z(1)", "x.y+z(1)", true] as const, ["x.y", "xzy", false] as const],
    ["*?*", "", false],
  ];
  for (const [pattern, name, isMeant] of cases) {
    t.is(matchesName(pattern, name), isMeant, `${pattern} ${name}`);
  }
});

test("a pattern of many stars takes time of at most its length times the name's", (t) => {
  const home = startDirectory(t);
  const name = "part-00000-0123456789abcdef.csv";
  writeFileSync(join(home, name), "");
  // As regular expressions, each of these would take exponential time.
  for (const pattern of ["***************z", `${"*0".repeat(200)}z`, "*?".repeat(40)]) {
    for (const found of [filesOf, tableFilesOf]) {
      t.throws(() => found([join(home, pattern)]), { message: /No file matches/ });
    }
    t.false(isMeant(`${pattern}/x`, `${name}/y/z`));
  }
  t.false(matchesName(`${"*a".repeat(2000)}b`, "a".repeat(4000)));
  t.deepEqual(filesOf([join(home, "*".repeat(50))]), [join(home, name)]);
  t.true(isMeant("clicks/day=*/part-?", "clicks/day=1/part-2/below"));
  t.false(isMeant("clicks/*", "clicks"));
});

test("a job's paths may list a million names, and no more", (t) => {
  const looked = new NameCount();
  looked.add(999_999, "a");
  t.throws(() => looked.add(2, "b"), {
    instanceOf: InputUnusableError,
    message: /more than 1000000 files to look at, with those of b/,
  });
});

test("a path that the disk refuses to read is an error with the path", (t) => {
  const home = startDirectory(t);
  symlinkSync("loop", join(home, "loop"));
  for (const path of [join(home, "loop"), join(home, "x".repeat(5000))]) {
    for (const found of [filesOf, tableFilesOf]) {
      const error = t.throws(() => found([path]), { instanceOf: InputUnusableError });
      t.true(error.message.includes(path), error.message);
    }
  }
});
