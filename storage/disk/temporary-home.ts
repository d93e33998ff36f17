// A temporary directory that is removed at the end of its block, or earlier with the process.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InputUnusableError } from "../../src/errors/errors.ts";

export interface TemporaryHome extends Disposable {
  readonly path: string;
}

/**
 * Makes a new directory in the directory `parent`; its name is `prefix` and random letters.
 * @throws InputUnusableError where the system refuses to make it
 */
export function temporaryHome(prefix: string, parent = tmpdir()): TemporaryHome {
  const path = made(join(parent, prefix), parent);
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

function made(prefix: string, parent: string): string {
  try {
    return mkdtempSync(prefix);
  } catch (cause) {
    const message =
      `Cannot make a temporary directory in ${parent} (${(cause as Error).message}): set TMPDIR to a ` +
      "directory with free space in which this user may write";
    throw new InputUnusableError(parent, message, { cause });
  }
}
