// Validates options once, at the public interface, and fills in defaults. All messages have one
// form: "Expected `trainers` to be an integer >= 1, got `0` (number)". All faults are reported at
// once.

import type { z } from "zod";
import { InvalidOptionError, shownName } from "../errors/errors.ts";
import { nearestName } from "./nearest-name.ts";
import { optionNamesAt } from "./option-schemas.ts";
import type { Steps } from "./turns.ts";

/** Validates `value` by `schema`. Returns it with defaults, frozen. @throws InvalidOptionError */
export function checkOptions<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  at = "",
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return deepFreeze(result.data);
  const problems = new Map<string, string>();
  const shown = result.error.issues.slice(0, issuesMax);
  const meant = new Set<string>();
  const namesAt = (path: readonly PropertyKey[]) => optionNamesAt(schema, path, value);
  for (const issue of shown) {
    for (const { option, message } of refusals(issue, value, at, namesAt, meant)) {
      // Further faults of an option are often caused by its first fault.
      if (!problems.has(option)) problems.set(option, message);
    }
  }
  // An option that is missing because it is misspelled is reported only once.
  for (const option of meant) {
    if (problems.get(option)?.endsWith(", got nothing")) problems.delete(option);
  }
  throw InvalidOptionError.ofAll([...problems].map(([option, message]) => ({ option, message })));
}

const accepted = new WeakMap<z.ZodType, WeakSet<WeakKey>>();

/** Makes a schema of list elements accept what `checkEach` returned, without checking it again. */
export function checkOnce(schema: z.ZodType): void {
  const known = new WeakSet<WeakKey>();
  accepted.set(schema, known);
  const { run } = schema._zod;
  const hasChecks = (schema._zod.def.checks ?? []).length > 0;
  schema._zod.run = (payload, context) => {
    if (known.has(payload.value as WeakKey)) return payload;
    // Zod replaces `parse` after its first call, and a schema without checks has `parse` as `run`.
    return hasChecks ? run(payload, context) : schema._zod.parse(payload, context);
  };
}

/** Elements that are checked in one turn of the event loop, which takes some milliseconds. */
const elementsAtOnce = 1000;

/**
 * Checks the elements of a long list, in steps. Returns valid elements with their defaults, and
 * invalid ones unchanged: `checkOptions` reports these when it checks the whole list.
 */
export function* checkEach(schema: z.ZodType, list: readonly unknown[]): Steps<unknown[]> {
  const checked: unknown[] = [];
  for (const element of list) {
    if (checked.length % elementsAtOnce === elementsAtOnce - 1) yield;
    const { data, success } = schema.safeParse(element);
    if (success) accepted.get(schema)?.add(deepFreeze(data) as WeakKey);
    checked.push(success ? data : element);
  }
  return checked;
}

/** Runs all checks, and throws all of their faults as one error. @throws InvalidOptionError */
export function checkAll(checks: readonly (() => void)[]): void {
  const problems: InvalidOptionError["problems"][number][] = [];
  for (const check of checks) {
    try {
      check();
    } catch (error) {
      if (!(error instanceof InvalidOptionError)) throw error;
      problems.push(...error.problems);
    }
  }
  if (problems.length > 0) throw InvalidOptionError.ofAll(problems);
}

/** An error in the common form, for checks that a schema cannot express. */
export function expected(option: string, expectation: string, value: unknown): InvalidOptionError {
  const message = `Expected \`${option}\` to be ${expectation}, got ${show(value)}`;
  return new InvalidOptionError(option, message);
}

type Issue = z.core.$ZodIssue;

/** Most faults reported at once, including unknown names, as building each message takes time. */
const issuesMax = 200;

/**
 * The errors of an issue: one per option, and one per unknown name. Adds to `meant` the options
 * that the user probably meant by unknown names.
 */
function refusals(
  found: Issue,
  root: unknown,
  at: string,
  namesAt: (path: readonly PropertyKey[]) => string[],
  meant: Set<string>,
): InvalidOptionError[] {
  const issue = innermost(found);
  const option = pathOf([...(at === "" ? [] : [at]), ...issue.path]);
  if (issue.code === "unrecognized_keys") {
    const names = namesAt(issue.path);
    return issue.keys.slice(0, issuesMax).map((key) => {
      const fullOf = (name: string) => {
        return option === "" ? shownName(name) : `${option}.${shownName(name)}`;
      };
      const nearest = nearestName(key, names);
      if (nearest !== undefined) meant.add(fullOf(nearest));
      const why =
        nearest === undefined
          ? `there is none of that name${besides(names)}`
          : `did you mean \`${nearest}\`?`;
      return new InvalidOptionError(fullOf(key), `Expected no option \`${fullOf(key)}\`: ${why}`);
    });
  }
  const value = valueAt(root, issue.path);
  const expectation = expectationOf(issue);
  const refusal = expected(option === "" ? "options" : option, expectation, value);
  const plain = /\b(integer|number)\b/.test(expectation) ? withoutUnderscores(value) : undefined;
  if (plain !== undefined) {
    return [new InvalidOptionError(refusal.option, `${refusal.message}; write ${plain}`)];
  }
  const nearest = typeof value === "string" ? nearestName(value, wordsOf(issue)) : undefined;
  if (nearest === undefined) return [refusal];
  return [
    new InvalidOptionError(refusal.option, `${refusal.message}; did you mean \`${nearest}\`?`),
  ];
}

/** The number meant by text such as `5_000_000`, which YAML 1.2 does not read as a number. */
function withoutUnderscores(value: unknown): string | undefined {
  const isMeant = typeof value === "string" && /^[+-]?\d+(_\d+)+(\.\d+)?$/.test(value);
  return isMeant ? value.replaceAll("_", "") : undefined;
}

/** A list of the valid options for a message, if they are few. */
function besides(names: readonly string[]): string {
  if (names.length === 0 || names.length > 8) return "";
  return `; the options here are ${names.map((name) => `\`${name}\``).join(", ")}`;
}

/** The allowed words of a value. */
function wordsOf(issue: Issue): string[] {
  const values =
    issue.code === "invalid_value"
      ? issue.values
      : issue.code === "invalid_union" && "options" in issue
        ? (issue.options as readonly unknown[] | undefined)
        : [];
  return (values ?? []).filter((value) => typeof value === "string");
}

/** Finds the branch of a union that matched furthest, as its message helps most. */
function innermost(issue: Issue): Issue {
  if (issue.code !== "invalid_union" || issue.errors.length === 0) return issue;
  let best: Issue | undefined;
  for (const branch of issue.errors) {
    const first = branch[0];
    if (first === undefined) continue;
    const inner = innermost(first);
    if (best === undefined || inner.path.length > best.path.length) best = inner;
  }
  if (best === undefined || best.path.length === 0) return issue;
  return { ...best, path: [...issue.path, ...best.path] };
}

function expectationOf(issue: Issue): string {
  switch (issue.code) {
    case "invalid_type":
      return article(nouns[issue.expected] ?? issue.expected);
    case "too_small":
      return bound(issue.origin, issue.inclusive === false ? ">" : ">=", issue.minimum);
    case "too_big":
      return bound(issue.origin, issue.inclusive === false ? "<" : "<=", issue.maximum);
    case "invalid_value":
      return oneOf(issue.values);
    case "invalid_union":
      return "options" in issue && issue.options !== undefined
        ? oneOf(issue.options)
        : anyOf(issue);
    default:
      return issue.message;
  }
}

/** Common words for zod's terms. */
const nouns: Readonly<Record<string, string>> = {
  int: "integer",
  record: "object",
  nonoptional: "value",
};

/** The expectation of a union: its own message, or those of its branches. */
function anyOf(issue: Issue & { code: "invalid_union" }): string {
  if (issue.message !== "Invalid input") return issue.message;
  return issue.errors.flatMap(([first]) => (first ? expectationOf(first) : [])).join(", or ");
}

function oneOf(values: readonly unknown[]): string {
  return `one of ${values.map((value) => JSON.stringify(value)).join(", ")}`;
}

function bound(origin: string, sign: string, limit: number | bigint): string {
  if (origin === "array" || origin === "set") return `a list of ${sign} ${limit} entries`;
  if (origin === "string") return `a string of ${sign} ${limit} characters`;
  return `${article(origin === "int" ? "integer" : origin)} ${sign} ${limit}`;
}

function article(noun: string): string {
  return /^[aeiou]/.test(noun) ? `an ${noun}` : `a ${noun}`;
}

function pathOf(path: readonly PropertyKey[]): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += text === "" ? String(part) : `.${String(part)}`;
  }
  return text;
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root;
  for (const part of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

function show(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "`null`";
  const text = typeof value === "object" ? JSON.stringify(value, digitsOf) : String(value);
  const short = text.length > 60 ? `${text.slice(0, 57)}...` : text;
  const kind = Array.isArray(value) ? "list" : typeof value;
  return `\`${short}\` (${kind})`;
}

/** Shows a bigint, which JSON lacks, as its digits. */
function digitsOf(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
