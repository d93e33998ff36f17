// Directories are created with their parents; a refusal by the system is classified as lasting or
// temporary.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { isFull, lastingRefusal } from "../../src/ports/disk-refusals.ts";
import { replaceDurably } from "../../storage/disk/durable-files.ts";
import { startDirectory } from "../data/data-files.ts";

function refusalOf(path: string): unknown {
  try {
    realDisk.makeDirectory(path);
  } catch (error) {
    return error;
  }
  return undefined;
}

test("a directory is created with its parents, and again without an error", (t) => {
  const home = startDirectory(t);
  const path = join(home, "a", "b", "c");
  realDisk.makeDirectory(path);
  realDisk.makeDirectory(path);
  t.true(existsSync(path));
});

test("a lasting refusal is reported at once, with its reason", (t) => {
  const home = startDirectory(t);
  writeFileSync(join(home, "file"), "");
  t.is(lastingRefusal(refusalOf(join(home, "file"))), "a file is in the place of a directory");
  const below = refusalOf(join(home, "file", "below"));
  t.is(lastingRefusal(below), "a file is in the place of a directory");
  // Node's own recursive `mkdir` never returns for this path.
  const reason = lastingRefusal(refusalOf("/proc/osiris/below"));
  t.is(typeof reason, "string");
});

test("a full disk may get space later, and a failing disk may recover", (t) => {
  const errorOf = (code: string) => Object.assign(new Error(code), { code, syscall: "write" });
  t.true(isFull(errorOf("ENOSPC")));
  t.true(isFull(errorOf("EDQUOT")));
  for (const code of ["ENOSPC", "EDQUOT", "EIO", "EMFILE"]) {
    t.is(lastingRefusal(errorOf(code)), undefined);
  }
  t.false(isFull(errorOf("EIO")));
  t.is(lastingRefusal(new Error("EACCES")), undefined, "an error without a code is no refusal");
});

test("on a full disk a write leaves no temporary file, and keeps the file before", (t) => {
  const home = startDirectory(t);
  const path = join(home, "record.json");
  replaceDurably(realDisk, path, Buffer.from("before"));
  const refusal = Object.assign(new Error("ENOSPC"), { code: "ENOSPC", syscall: "write" });
  const fail = () => {
    throw refusal;
  };
  const full: Disk = {
    ...realDisk,
    open: (name, mode) => ({ ...realDisk.open(name, mode), write: fail }),
  };
  t.throws(() => replaceDurably(full, path, Buffer.from("after"), "w1"), { is: refusal });
  t.throws(() => replaceDurably({ ...realDisk, rename: fail }, path, Buffer.from("after")), {
    is: refusal,
  });
  t.deepEqual(readdirSync(home), ["record.json"]);
  t.is(readFileSync(path, "utf8"), "before");
});
