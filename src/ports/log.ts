// The log as an argument: where lines for people and their tools go. No decision depends on the
// log, and it never makes a caller wait.

/** From least to most urgent. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

export type LogLevel = (typeof logLevels)[number];

/** The subject of a line. Further fields are allowed; no field may hold a secret. */
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

/** One line, sent from a thread. Plain data. */
export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

export interface Log {
  /** Takes a line at once. Never throws. */
  write(level: LogLevel, message: string, fields?: LogFields): void;
  /** From now on, also keeps lines of `run` in this directory, as lines of `source`. */
  keep(run: string, directory: string, source: string): void;
}

/** A log that drops all lines. */
export const silentLog: Log = { write() {}, keep() {} };
