// What each column becomes in a first job: the label, a dense feature, a feature of ids, the time
// by which the data are split, or nothing. Every decision has a reason that people can read.

import { InputUnusableError } from "../../src/errors/errors.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { ColumnProfile, DataProfile } from "./profile-columns.ts";

/** What a column becomes. */
export type ColumnRole = "label" | "dense" | "categorical" | "time" | "ignored";

/** A column with its role, and why: a clause. */
export interface AssignedColumn {
  readonly profile: ColumnProfile;
  readonly role: ColumnRole;
  readonly why: string;
}

/** What a user may know better. */
export interface RoleOptions {
  /** The column to learn. */
  readonly label?: string | undefined;
  /** The column of the time. */
  readonly time?: string | undefined;
  /** Columns that are left out. */
  readonly ignored?: readonly string[] | undefined;
}

/** Names that labels have, the likeliest first. */
const labelNames = [
  ...["label", "click", "clicked", "is_click", "target", "y", "converted", "conversion"],
  ...["purchase", "purchased", "buy", "like", "liked", "rating"],
];
const timeNames = /^(time|timestamp|ts|date|datetime|day|created|created_at|event_time)$/i;
const idNames = new RegExp(
  "(^|[^a-z])(id|ids|code|zip|type|category|kind|key|hash)$|[a-z](Id|ID|Code|Type)$|" +
    "^(user|item|product|movie|ad|campaign|publisher|advertiser|site|app|device|page|query|" +
    "country|region|city|brand|shop|store|merchant|author|session)s?$",
  "i",
);
/** Integers of a name that tells nothing are ids where they have so few different values. */
const fewValues = 32;
/** Or so many, which fill their range: counts are rare where they are large. */
const [manyValues, filledShare] = [256, 0.5];

/** Columns that might be the label, the likeliest first. */
export function labelCandidates({ columns }: DataProfile): string[] {
  const usable = columns.filter((column) => column.form === "value" && isTwoValued(column));
  const byName = labelNames.flatMap((name) =>
    columns.filter((column) => column.name.toLowerCase() === name && column.form === "value"),
  );
  return [...new Set([...byName, ...usable].map(({ name }) => name))];
}

/** The label, where it is named or beyond doubt. */
export function knownLabel(data: DataProfile, { label }: RoleOptions): string | undefined {
  if (label !== undefined) return label;
  const [first, ...others] = labelCandidates(data);
  if (first === undefined) return undefined;
  return others.length === 0 || labelNames.includes(first.toLowerCase()) ? first : undefined;
}

/**
 * The role of each column, in the order of the file.
 * @throws InvalidOptionError where an option names a column that is not there
 * @throws InputUnusableError where there is no label, or nothing to learn it from
 */
export function assignRoles(data: DataProfile, options: RoleOptions = {}): AssignedColumn[] {
  const names = data.columns.map(({ name }) => name);
  const { ignored = [], time } = options;
  for (const [option, own] of [
    ["label", options.label],
    ["time", time],
    ...ignored.map((name) => ["ignore", name] as const),
  ] as const) {
    if (own === undefined || names.includes(own)) continue;
    throw expected(option, `one of the columns ${names.join(", ")}`, own);
  }
  const label = knownLabel(data, options);
  const [file = ""] = data.files;
  if (label === undefined) {
    const candidates = labelCandidates(data);
    const which = candidates.length > 0 ? candidates.join(", ") : "none has two values";
    const message = `Which column of ${file} is to be predicted is not known (${which}): name it with \`--label\``;
    throw new InputUnusableError(file, message);
  }
  const roles = data.columns.map((profile): AssignedColumn => {
    if (data.kind === "criteo-tsv") return criteoRole(profile);
    if (profile.name === label) return { profile, role: "label", why: labelReason(profile) };
    if (ignored.includes(profile.name)) return { profile, role: "ignored", why: "as asked" };
    if (profile.name === time) return { profile, role: "time", why: "as asked" };
    return { profile, ...roleOf(profile, data) };
  });
  if (!roles.some(({ role }) => role === "dense" || role === "categorical")) {
    const message = `Expected a column of ${file} beside \`${label}\` to learn from, got none`;
    throw new InputUnusableError(file, message);
  }
  return oneTime(roles, time);
}

/** Columns of Criteo's logs are what their places say. */
function criteoRole(profile: ColumnProfile): AssignedColumn {
  if (profile.name === "label") return { profile, role: "label", why: labelReason(profile) };
  const [role, why] = profile.name.startsWith("I")
    ? (["dense", "a count of Criteo's logs"] as const)
    : (["categorical", `ids of Criteo's logs, ${profile.distinct} different`] as const);
  return { profile, role, why };
}

/** The first time that is a time by its name and values; of several, the others are left out. */
function oneTime(roles: readonly AssignedColumn[], time: string | undefined): AssignedColumn[] {
  const first = time ?? roles.find(({ role }) => role === "time")?.profile.name;
  return roles.map((one) => {
    if (one.role !== "time" || one.profile.name === first) return one;
    return { ...one, role: "ignored", why: `a time beside \`${first}\`` };
  });
}

function roleOf(
  profile: ColumnProfile,
  { rows }: DataProfile,
): Pick<AssignedColumn, "role" | "why"> {
  const { name, form, present, distinct, integers, fractions, texts, times, min, max } = profile;
  const ignored = (why: string) => ({ role: "ignored", why }) as const;
  const categorical = (why: string) => ({ role: "categorical", why }) as const;
  if (name === "") return ignored("a column without a name cannot be asked for");
  if (present === 0) return ignored("it is empty");
  if (distinct <= 1) return ignored(`it is always ${profile.values[0]}`);
  const length = `${profile.meanLength.toFixed(1)} ids a row`;
  if (form !== "value") return categorical(`a list, ${length}`);
  if (texts > 0 && times === texts && fractions + integers === 0) {
    return { role: "time", why: "a time" };
  }
  const isEpoch = timeNames.test(name) && texts === 0 && min >= 0 && max > 1e6;
  if (isEpoch) return { role: "time", why: "a time, as numbers" };
  const isUnique = distinct >= 0.999 * present && rows > 100 && fractions === 0;
  if (isUnique) return ignored("another value in each row tells nothing of other rows");
  if (texts > 0 && texts * 20 > integers + fractions) {
    const split = profile.separator === undefined ? "" : `, split at "${profile.separator}"`;
    return categorical(`text, ${distinct} different${split}`);
  }
  if (texts > 0) return { role: "dense", why: "numbers, with some text that counts as missing" };
  if (fractions > 0) return { role: "dense", why: `numbers, ${min} to ${max}` };
  if (idNames.test(name)) return categorical(`integers that are ids by their name, ${distinct}`);
  if (distinct <= fewValues) return categorical(`few integers, ${distinct} different`);
  if (distinct > manyValues && distinct >= filledShare * (max - min + 1)) {
    return categorical(`integers that fill their range, ${distinct} different`);
  }
  return { role: "dense", why: `integers, ${min} to ${max}` };
}

function isTwoValued({ distinct, missing, times, form }: ColumnProfile): boolean {
  return form === "value" && distinct === 2 && missing === 0 && times === 0;
}

function labelReason(profile: ColumnProfile): string {
  const { values, distinct, min, max } = profile;
  return isTwoValued(profile)
    ? `${values.join(" and ")}, the first in ${(100 * profile.topShare).toFixed(1)} % of the rows`
    : `${distinct} different values, ${min} to ${max}`;
}
