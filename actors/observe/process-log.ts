// The log of a process: all lines of its actors and threads pass through it, as JSON, in the order
// of each writer. Lines go to the process's output and, if they belong to a run, also to files next
// to its checkpoints (storage/cluster/run-log.ts).
//
// Invariants
//   P1. No secret is written: neither the process's credentials, nor a value under a secret's name.

import { hostname } from "node:os";
import type { LevelWithSilent } from "pino";
import { type Log, type LogLevel, logLevels } from "../../src/ports/log.ts";
import { RunLog } from "../../storage/cluster/run-log.ts";

/** The output of a process's log. */
export interface LogOptions {
  /** Least level that is written; `silent`: none is. */
  readonly level: LogLevel | "silent";
  /** Writes a line of JSON, given without line break. */
  readonly write: (line: string) => void;
}

/** Least level in a run's own files, whatever the process writes. */
const keptLevel: LogLevel = "info";
/** Most runs with open log files. */
const runsMax = 64;
/** Most lines of a run that are buffered until its directory is known. */
const waitingMax = 100;
/** The symbol under which pino passes a line's fields to its streams. */
const metadata = Symbol.for("pino.metadata");

/** Opens the log of this process. `secrets`: its credentials, which are redacted. */
export async function openProcessLog(
  options: LogOptions = { level: "silent", write: () => {} },
  secrets: readonly (string | undefined)[] = [],
): Promise<Log> {
  const { pino } = await import("pino"); // Lazy: parsing a command line does not need it.
  const kept = new KeptLines();
  const { levels } = pino;
  const rankOf = (level: LevelWithSilent) => levels.values[level] ?? Number.POSITIVE_INFINITY;
  const stream = {
    [metadata]: true,
    lastLevel: 0,
    lastObj: {} as { readonly run?: string },
    write(text: string) {
      const line = text.trimEnd();
      if (this.lastLevel >= rankOf(options.level)) options.write(line);
      const { run } = this.lastObj;
      if (run !== undefined && this.lastLevel >= rankOf(keptLevel)) kept.add(run, line);
    },
  };
  const isVerbose = rankOf(options.level) < rankOf(keptLevel);
  const logger = pino(
    {
      level: isVerbose ? options.level : keptLevel,
      base: { machine: hostname(), pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: "message",
      formatters: { level: (level) => ({ level }) },
      hooks: { streamWrite: redaction(secrets) },
    },
    stream,
  );
  return {
    write(level, message, fields = {}) {
      logger[level](fields, message);
    },
    keep: (run, directory, source) => kept.open(run, directory, source),
  };
}

/** The log files of the runs. */
class KeptLines {
  readonly #files = new Map<string, RunLog>();
  readonly #waiting = new Map<string, string[]>();

  /** Sets a run's directory; only the first call for a run counts. */
  open(run: string, directory: string, source: string): void {
    if (this.#files.has(run)) return;
    const file = new RunLog(directory, source);
    remember(this.#files, run, file);
    for (const line of this.#waiting.get(run) ?? []) file.append(line);
    this.#waiting.delete(run);
  }

  add(run: string, line: string): void {
    const file = this.#files.get(run);
    if (file !== undefined) {
      this.#files.delete(run); // Reinserted as the newest.
      remember(this.#files, run, file);
      file.append(line);
      return;
    }
    const waiting = this.#waiting.get(run) ?? [];
    if (waiting.length < waitingMax) waiting.push(line);
    remember(this.#waiting, run, waiting);
  }
}

/** Adds to a map of runs; a full map forgets its oldest entry. */
function remember<Value>(map: Map<string, Value>, run: string, value: Value): void {
  map.set(run, value);
  const [oldest] = map.keys();
  if (map.size > runsMax && oldest !== undefined) map.delete(oldest);
}

/** JSON fields whose values are secrets. */
const secretNames = /"(token|pass|password|nkey|creds|secret|authorization)":"(?:[^"\\]|\\.)*"/gi;
/** Credentials in an address: `nats://user:password@host`. A password may have an `@`. */
const inAddress = /(\w:\/\/)[^/?#\s"]+@/g;

/** Shortest secret that is redacted: a shorter one would match ordinary words. */
const secretCharactersMin = 4;

/** Makes a function that redacts secrets in a line of JSON. P1 */
export function redaction(secrets: readonly (string | undefined)[]): (line: string) => string {
  const known = secrets
    .filter((secret) => secret !== undefined && secret.length >= secretCharactersMin)
    .map((secret) => JSON.stringify(secret).slice(1, -1));
  return (line) => {
    const named = line.replace(secretNames, '"$1":"***"').replace(inAddress, "$1***@");
    return known.reduce((text, secret) => text.replaceAll(secret, "***"), named);
  };
}

/** The levels that `LogOptions` takes. */
export const logOptionLevels: readonly LogOptions["level"][] = [...logLevels, "silent"];
