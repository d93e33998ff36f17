// The log of a process: one place through which the lines of its actors and of its threads go, in
// the order in which each of them wrote, as lines of JSON. From there they go out, and, where they
// are about a run, also beside its checkpoints (storage/cluster/run-log.ts).
//
// Invariants
//   P1. No secret leaves it: no secret of the process, and no value under a secret's name.

import { hostname } from "node:os";
import type { LevelWithSilent } from "pino";
import { type Log, type LogLevel, logLevels } from "../../src/ports/log.ts";
import { RunLog } from "../../storage/cluster/run-log.ts";

/** What becomes of a process's lines. */
export interface LogOptions {
  /** Lines below it are not written; `silent`: none is. */
  readonly level: LogLevel | "silent";
  /** Takes a line of JSON, without its end. */
  readonly write: (line: string) => void;
}

/** The least level that a run's own files keep, whatever the process writes. */
const keptLevel: LogLevel = "info";
/** Runs with known log files, at a time. */
const runsMax = 64;
/** Lines of a run that wait until it is known where they are kept. */
const waitingMax = 100;
/** Where pino tells its streams what a line is about. */
const metadata = Symbol.for("pino.metadata");

/** Opens the log of this process. `secrets`: its credentials, which no line shows. */
export async function openProcessLog(
  options: LogOptions = { level: "silent", write: () => {} },
  secrets: readonly (string | undefined)[] = [],
): Promise<Log> {
  const { pino } = await import("pino"); // Nothing that only parses a command line needs it.
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

/** The files of the runs. */
class KeptLines {
  readonly #files = new Map<string, RunLog>();
  readonly #waiting = new Map<string, string[]>();

  /** The first who says where a run's lines are kept is obeyed. */
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

/** Names under which secrets stand. */
const secretNames = /"(token|pass|password|nkey|creds|secret|authorization)":"(?:[^"\\]|\\.)*"/gi;
/** Who asks, in an address: `nats://user:password@host`. */
const inAddress = /(\w:\/\/)[^/\s"@]+@/g;

/** What is shorter stands in every other word. */
const secretCharactersMin = 4;

/** Takes secrets out of a line of JSON. P1 */
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
