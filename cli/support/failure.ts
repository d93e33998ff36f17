// How a command ends: its exit code, and one sentence for each error.

import { CommanderError } from "commander";
import { InvalidOptionError, TrainingError } from "../../internal.ts";

/** The exit codes of every command, as `--help` lists them. */
export const exitCodes = { done: 0, failed: 1, wrong: 2, differs: 3, cancelled: 130 } as const;

/** Codes of errors that another option or another file can fix: the command exits with 2. */
const wrongCodes = new Set([
  "INVALID_OPTION",
  "INPUT_UNUSABLE",
  "DATA_REJECTED",
  "DATA_CHANGED",
  "DISK_REFUSED",
  "MEMORY_EXCEEDED",
  "BUFFERS_EXCEEDED",
  "SIZE_EXCEEDED",
  "CHECKPOINT_MISSING",
  "CHECKPOINT_FOREIGN",
  "KEY_TAKEN",
  "PATH_FORBIDDEN",
  "RUN_STATE",
  "TRACE_MISSING",
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

/** Prints on stderr why a command failed; with `verbose`, also the stack. */
export function printFailure(error: unknown, verbose: boolean): void {
  if (error instanceof CommanderError) return; // Commander has printed it.
  for (const sentence of sentencesOf(error)) console.error(`osiris: ${sentence}`);
  if (verbose && error instanceof Error) {
    console.error(error.stack);
    if (error.cause !== undefined) console.error("caused by", error.cause);
  }
}

/** Prints the last line of JSON of a command that failed: its error. */
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
  if (error instanceof TrainingError) {
    const isUnheard = error.code === "REQUEST_FAILED" && line.endsWith("nobody listens");
    return isUnheard ? `${line}; check that the cluster is up, and its name (--cluster)` : line;
  }
  return `${error.name}: ${line} (an error in Osiris; --verbose prints the stack)`;
}
