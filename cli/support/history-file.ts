// The file that a learning curve is written to.

import { closeSync, openSync, writeFileSync } from "node:fs";
import { historyCsv, InputUnusableError, runHistory } from "../../internal.ts";

/** Writes the curve of a checkpoint directory to a CSV file. @throws InputUnusableError */
export function writeCurve(path: string, directory: string): void {
  const text = historyCsv(runHistory(directory));
  writing(path, () => writeFileSync(path, text));
}

/** A check before a run of hours. @throws InputUnusableError where the file cannot be written */
export function checkCurve(path: string): void {
  writing(path, () => closeSync(openSync(path, "a")));
}

function writing(path: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InputUnusableError(path, `Cannot write the curve ${path}: ${reason}`, { cause });
  }
}
