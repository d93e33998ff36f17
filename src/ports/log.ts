// The log port: the destination of lines for people and their tools. No decision depends on the
// log, and it never blocks a caller.

/** From least to most urgent. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

export type LogLevel = (typeof logLevels)[number];

/** The subject of a line, as fields. Further fields are allowed; none may contain a secret. */
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

/** A line that a thread sends to the process. Plain data. */
export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

export interface Log {
  /** Writes a line without waiting. Never throws. */
  write(level: LogLevel, message: string, fields?: LogFields): void;
  /** From now on, also stores lines of `run` in this directory, as lines of `source`. */
  keep(run: string, directory: string, source: string): void;
}

/** A log that drops all lines. */
export const silentLog: Log = { write() {}, keep() {} };
