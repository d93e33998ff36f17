// A temporary directory that is removed at the end of its block, or earlier with the process.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TemporaryHome extends Disposable {
  readonly path: string;
}

/** Makes a directory in `parent`, whose name begins with `prefix`. */
export function temporaryHome(prefix: string, parent = tmpdir()): TemporaryHome {
  const path = mkdtempSync(join(parent, prefix));
  const remove = () => rmSync(path, { recursive: true, force: true });
  process.once("exit", remove);
  return {
    path,
    [Symbol.dispose]() {
      process.off("exit", remove);
      remove();
    },
  };
}
