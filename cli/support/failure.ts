// How a command ends: its exit code, and one clear sentence where something went wrong.

import { CommanderError } from "commander";
import { InvalidOptionError, TrainingError } from "../../internal.ts";

/** The exit codes of every command, as `--help` lists them. */
export const exitCodes = { done: 0, failed: 1, wrong: 2, differs: 3, cancelled: 130 } as const;

/** What the user can put right by another option or another file. */
const wrongCodes = new Set([
  "INVALID_OPTION",
  "INPUT_UNUSABLE",
  "DATA_REJECTED",
  "DATA_CHANGED",
  "DISK_REFUSED",
  "MEMORY_EXCEEDED",
  "CHECKPOINT_MISSING",
  "CHECKPOINT_FOREIGN",
  "KEY_TAKEN",
  "PATH_FORBIDDEN",
  "RUN_STATE",
  "CLUSTER_SERVED",
  "NOT_REPLAYABLE",
  "INGEST_FOREIGN",
  "STREAM_TRIMMED",
  "WINDOW_FULL",
]);

/** The exit code of a command that ended with `error`. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) {
    return error.exitCode === 0 ? exitCodes.done : exitCodes.wrong;
  }
  if (!(error instanceof TrainingError)) return exitCodes.failed;
  if (error.code === "RUN_CANCELLED") return exitCodes.cancelled;
  return wrongCodes.has(error.code) ? exitCodes.wrong : exitCodes.failed;
}

/** Tells on stderr why a command failed; with `verbose`, and where. */
export function tellFailure(error: unknown, verbose: boolean): void {
  if (error instanceof CommanderError) return; // Commander has told.
  for (const sentence of sentencesOf(error)) console.error(`osiris: ${sentence}`);
  if (verbose && error instanceof Error) {
    console.error(error.stack);
    if (error.cause !== undefined) console.error("caused by", error.cause);
  }
}

/** The last line of JSON of a command that failed. */
export function reportFailure(error: unknown): void {
  if (exitCodeOf(error) === exitCodes.done) return; // Help was asked for.
  const code = error instanceof TrainingError ? error.code : undefined;
  const wrong = error instanceof CommanderError ? "INVALID_OPTION" : "UNKNOWN";
  const message = error instanceof Error ? error.message.replace(/^error: /, "") : String(error);
  const problems = error instanceof InvalidOptionError ? { problems: error.problems } : {};
  console.log(JSON.stringify({ report: "error", code: code ?? wrong, message, ...problems }));
}

function sentencesOf(error: unknown): string[] {
  if (error instanceof InvalidOptionError) return error.problems.map(({ message }) => message);
  return [sentenceOf(error)];
}

function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const line = error.message
    .split(/\s*\n\s*/)
    .join(" ")
    .trim();
  if (error instanceof TrainingError) return line;
  return `${error.name}: ${line} (an error in Osiris; --verbose tells where)`;
}
