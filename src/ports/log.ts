// The log as an argument: where lines for people and their tools go. Nothing is decided by it, and
// it never makes anybody wait.

/** From the least to the most pressing. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

export type LogLevel = (typeof logLevels)[number];

/** What a line is about. More fields may stand beside these; none of them is a secret. */
export interface LogFields {
  readonly run?: string;
  readonly generation?: number;
  readonly step?: number;
  /** `device:1`, as in an incident. */
  readonly actor?: string;
  /** Index of the host in its cluster. */
  readonly host?: number;
  readonly [field: string]: unknown;
}

/** One line, on its way from a thread. Plain data. */
export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

export interface Log {
  /** Takes a line at once. Never throws. */
  write(level: LogLevel, message: string, fields?: LogFields): void;
  /** From now on lines of `run` are kept in this directory too, as those of `source`. */
  keep(run: string, directory: string, source: string): void;
}

/** Where nobody listens. */
export const silentLog: Log = { write() {}, keep() {} };
