// The base class of all errors of Osiris, the factory of their classes, and the conversion of
// errors to plain data for threads and the wire. The class of an error decides what happens next: a
// supervisor has one `switch` on `recovery`. Programs compare `code`, never the message, which is
// made safe to show on a terminal.

/** The supervisor's reaction to an error: go back to the last checkpoint, or end the run. */
export type Recovery = "restore" | "stop";

/** The base class of all errors of Osiris. */
export abstract class TrainingError extends Error {
  /** A stable code, documented in docs/errors.md: programs compare it, never the message. */
  abstract readonly code: string;
  /** The supervisor's reaction. */
  abstract readonly recovery: Recovery;

  constructor(message: string, options?: ErrorOptions) {
    super(visible(message), options);
    this.name = new.target.name;
  }
}

/** The base of an error class: its constructor takes the facts of `say`, then the cause. */
export interface ErrorBase<Code, Way, Facts extends readonly unknown[], Fields> {
  readonly code: Code;
  readonly recovery: Way;
  new (
    ...facts: [...Facts, options?: ErrorOptions]
  ): TrainingError & { readonly code: Code; readonly recovery: Way } & Fields;
}

/**
 * Makes the base of an error class: `class GoneError extends errorClass("GONE", "stop", say) {}`.
 * `say` turns the facts of an error into its message, or into an object with the message and the
 * other fields of the error. A `say` that quotes the cause takes it as its last fact.
 */
export function errorClass<
  const Code extends string,
  const Way extends Recovery,
  Facts extends readonly unknown[],
  Said extends string | { readonly message: string },
>(code: Code, recovery: Way, say: (...facts: Facts) => Said) {
  class KnownError extends TrainingError {
    static readonly code = code;
    static readonly recovery = recovery;
    readonly code = code;
    readonly recovery = recovery;

    constructor(...facts: [...Facts, options?: ErrorOptions]) {
      // A caller may append error options; `say` has no parameter for them.
      const said: string | { readonly message: string } = say(...(facts as unknown as Facts));
      const { message, ...fields } = typeof said === "string" ? { message: said } : said;
      const last: unknown = facts.at(-1);
      super(message, typeof last === "object" && last && "cause" in last ? last : undefined);
      Object.assign(this, fields);
    }
  }
  type Fields = Said extends string ? unknown : Readonly<Said>;
  // `Object.assign` adds the fields at run time, so the compiler cannot see them in the class.
  return KnownError as unknown as ErrorBase<Code, Way, Facts, Fields>;
}

/** An error as plain data, which keeps code and recovery across threads and the wire. */
export interface ErrorRecord {
  readonly name: string;
  readonly code: string;
  readonly recovery: Recovery;
  readonly message: string;
  readonly cause?: string | undefined;
  /** The lost actor, if the error names one. */
  readonly actor?: string | undefined;
}

/**
 * Converts any thrown value to plain data. Unknown errors get the recovery `restore`, so that the
 * restart limit ends a run in which they recur.
 */
export function recordError(error: unknown): ErrorRecord {
  const cause = error instanceof Error ? error.cause : undefined;
  const known = error instanceof TrainingError;
  const actor = known && "actor" in error ? error.actor : undefined;
  return {
    name: error instanceof Error ? error.name : "Error",
    code: known ? error.code : "UNKNOWN",
    recovery: known ? error.recovery : "restore",
    message: visible(error instanceof Error ? error.message : String(error)),
    ...(cause === undefined ? {} : { cause: visible(String(cause)) }),
    ...(typeof actor === "string" ? { actor } : {}),
  };
}

/** An error from another thread or process, with the original's code and recovery. */
export class RemoteError extends TrainingError {
  readonly code: string;
  readonly recovery: Recovery;
  readonly actor: string | undefined;

  constructor(record: ErrorRecord) {
    super(record.message, record.cause === undefined ? undefined : { cause: record.cause });
    this.name = record.name;
    this.code = record.code;
    this.recovery = record.recovery;
    this.actor = record.actor;
  }
}

/**
 * Escapes control characters, except line ends and tabs, as in `\x1b`. Messages quote names, paths
 * and data lines of other people, and a terminal would execute control characters in them.
 */
export function visible(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, (one) => {
    return `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}

/** Longest shown part of a foreign name, as a name may be as long as a request. */
const nameMax = 100;

/** A foreign name for a message, truncated if it is long. */
export function shownName(name: string): string {
  return name.length > nameMax ? `${name.slice(0, nameMax - 3)}...` : name;
}
