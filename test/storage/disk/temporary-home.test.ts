import { existsSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { temporaryHome } from "../../../storage/disk/temporary-home.ts";

test("a temporary directory is removed with its block; a refusal names TMPDIR", (t) => {
  let path: string;
  {
    using home = temporaryHome("osiris-test-");
    path = home.path;
    t.true(existsSync(path));
    t.throws(() => temporaryHome("osiris-test-", join(home.path, "none")), {
      instanceOf: InputUnusableError,
      message: /^Cannot make a temporary directory in .*\/none \(ENOENT.*\): set TMPDIR to /,
    });
  }
  t.false(existsSync(path));
});
