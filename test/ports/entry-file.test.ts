// The entry file of threads: the rollup, unless a module was compiled after it.

import { mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import test from "ava";
import { entryFile } from "../../src/ports/entry-file.ts";
import { startDirectory } from "../data/data-files.ts";

test("threads start with the rollup, unless a module was compiled after it", (t) => {
  const directory = startDirectory(t);
  const compiled = pathToFileURL(`${directory}/`);
  const write = (name: string, seconds: number) => {
    writeFileSync(join(directory, name), "");
    utimesSync(join(directory, name), seconds, seconds);
  };
  const chosen = () =>
    entryFile("threads", "actors/threads/thread-entry.js", compiled).href.slice(
      compiled.href.length,
    );
  t.is(chosen(), "actors/threads/thread-entry.js", "without a rollup");
  mkdirSync(join(directory, "threads"));
  write("threads/thread-entry.cjs", 100);
  t.is(chosen(), "threads/thread-entry.cjs", "as in an installed package");
  write(".tsbuildinfo", 90);
  t.is(chosen(), "threads/thread-entry.cjs");
  write(".tsbuildinfo", 110);
  t.is(chosen(), "actors/threads/thread-entry.js", "modules were compiled after the rollup");
});
