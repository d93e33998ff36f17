// Assigns a role to each column for the job that `osiris init` proposes: label, dense feature,
// categorical feature, the time by which the data are split, or ignored. Every decision comes with
// a readable reason.

import { expected, InputUnusableError } from "../../../internal.ts";
import type { ColumnProfile } from "./column-tally.ts";
import type { DataProfile } from "./profile-columns.ts";

/** The use of a column in the job. */
export type ColumnRole = "label" | "dense" | "categorical" | "time" | "ignored";

/** A column with its role, and the reason as a clause. */
export interface AssignedColumn {
  readonly profile: ColumnProfile;
  readonly role: ColumnRole;
  readonly why: string;
}

/** Decisions that the user makes instead of the heuristics. */
export interface RoleOptions {
  /** The column to predict. */
  readonly label?: string | undefined;
  /** The value of the label that counts as positive. */
  readonly positive?: string | undefined;
  /** The column with the time of a row. */
  readonly time?: string | undefined;
  /** Columns to leave out. */
  readonly ignored?: readonly string[] | undefined;
  /** Columns to use as features even if the heuristics would ignore them. */
  readonly features?: readonly string[] | undefined;
}

/** Usual names of labels, the likeliest first. */
const labelNames = [
  ...["label", "click", "clicked", "is_click", "target", "y", "converted", "conversion"],
  ...["purchase", "purchased", "buy", "like", "liked", "rating"],
];
/**
 * Names of outcomes, which happen after the prediction, as the label does. They are known in
 * recorded data but not at prediction time, so using them would leak the label.
 */
const outcomeNames = new RegExp(
  "^((is|has|did|was|label|target)_?)?(click|clicked|convert|converted|conversion|purchase|" +
    "purchased|buy|bought|like|liked|dislike|share|shared|follow|followed|install|installed|" +
    "order|ordered|subscribe|subscribed|churn|churned|rating|stars|label|target|paid|revenue|" +
    "(watch|dwell|play)_?time|add(ed)?_?to_?cart|sign_?up|favou?rite|favou?rited)" +
    "(_?(flag|label|target))?$",
  "i",
);
const timeNames =
  /^(.*_)?(time|timestamp|ts|date|datetime|day|dt|created|created_at|at)(_(s|ms|us|ns))?$/i;
/** Ranges of Unix times from 2001 to 2096 in s, ms, us and ns. */
const epochs = [1, 1e3, 1e6, 1e9].map((unit) => [1e9 * unit, 4e9 * unit] as const);
/** Names of columns that number or identify rows, such as `row_id`: no value repeats. */
const lineNames =
  /^(.*_)?(row|line|record|request|impression|event|log|index|uuid|guid)(_?id)?$|^id$/i;
const weightNames = /^(.*_)?(weight|sample_weight|importance)$/i;
const idNames = new RegExp(
  "(^|[^a-z])(id|ids|code|zip|type|category|kind|key|hash)$|[a-z](Id|ID|Code|Type)$|" +
    "^(user|item|product|movie|ad|campaign|publisher|advertiser|site|app|device|page|query|" +
    "country|region|city|brand|shop|store|merchant|author|session)s?$",
  "i",
);
/**
 * Most distinct values of a column of integers that is taken as ids although its name does not
 * suggest ids.
 */
const fewValues = 32;
/**
 * Such integers also count as ids if their distinct values fill most of the range from the least to
 * the greatest: the share `filledShare` for more than `manyValues` values, or `countedShare` for
 * values that begin at 0 or 1. Quantities rarely fill their range, as their large values are rare.
 */
const [manyValues, filledShare] = [256, 0.5];
const countedShare = 0.9;

/** Columns that might be the label, the likeliest first. */
export function labelCandidates({ columns }: DataProfile): string[] {
  const usable = columns.filter((column) => column.form === "value" && isTwoValued(column));
  const byName = labelNames.flatMap((name) =>
    columns.filter((column) => column.name.toLowerCase() === name && column.form === "value"),
  );
  return [...new Set([...byName, ...usable].map(({ name }) => name))];
}

/** The label, if it is named or the only plausible one; undefined: ambiguous. */
export function knownLabel(data: DataProfile, { label }: RoleOptions): string | undefined {
  if (label !== undefined) return label;
  const [first, ...others] = labelCandidates(data);
  if (first === undefined) return undefined;
  return others.length === 0 || labelNames.includes(first.toLowerCase()) ? first : undefined;
}

/**
 * The role of each column, in the order of the file.
 * @throws InvalidOptionError where an option names a column that does not exist
 * @throws InputUnusableError where no label is found, or no feature
 */
export function assignRoles(data: DataProfile, options: RoleOptions = {}): AssignedColumn[] {
  const names = data.columns.map(({ name }) => name);
  const { ignored = [], features = [], time } = options;
  for (const [option, column] of [
    ["label", options.label],
    ["time", time],
    ...ignored.map((name) => ["ignore", name] as const),
    ...features.map((name) => ["feature", name] as const),
  ] as const) {
    if (column === undefined || names.includes(column)) continue;
    throw expected(option, `one of the columns ${names.join(", ")}`, column);
  }
  const label = knownLabel(data, options);
  const [file = ""] = data.files;
  if (label === undefined) {
    const candidates = labelCandidates(data);
    const which = candidates.length > 0 ? candidates.join(", ") : "none has two values";
    const message = `Cannot tell which column of ${file} is the label (${which}): name it with \`--label\``;
    throw new InputUnusableError(file, message);
  }
  const roles = data.columns.map((profile): AssignedColumn => {
    if (data.kind === "criteo-tsv") return criteoRole(profile);
    if (profile.name === label) {
      return { profile, role: "label", why: labelReason(profile, options.positive) };
    }
    if (features.includes(profile.name)) return { profile, ...featureOf(profile) };
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

/** The role of a column of Criteo's logs, which follows from its position. */
function criteoRole(profile: ColumnProfile): AssignedColumn {
  if (profile.name === "label") return { profile, role: "label", why: labelReason(profile) };
  const [role, why] = profile.name.startsWith("I")
    ? (["dense", "a count of Criteo's logs"] as const)
    : (["categorical", `ids of Criteo's logs, ${profile.distinct} different`] as const);
  return { profile, role, why };
}

/** Keeps one time column, the named or the first one; further time columns are ignored. */
function oneTime(roles: readonly AssignedColumn[], time: string | undefined): AssignedColumn[] {
  const first = time ?? roles.find(({ role }) => role === "time")?.profile.name;
  return roles.map((one) => {
    if (one.role !== "time" || one.profile.name === first) return one;
    return { ...one, role: "ignored", why: `a time beside \`${first}\`` };
  });
}

type Role = Pick<AssignedColumn, "role" | "why">;

function roleOf(profile: ColumnProfile, data: DataProfile): Role {
  const { name, form, present, distinct, missing } = profile;
  const ignored = (why: string): Role => ({ role: "ignored", why });
  const keep = `\`--feature ${name}\` keeps it`;
  if (name === "") return ignored("a job cannot refer to a column without a name");
  if (profile.refused !== undefined) return ignored(profile.refused);
  if (present === 0) return ignored("it is empty");
  if (distinct <= 1 && missing === 0) return ignored(`it is always ${profile.values[0]}`);
  if (outcomeNames.test(name)) {
    const rows = missing + present;
    const gaps =
      missing === 0 ? "" : `, with \`missing: mask\` for the ${missing} of ${rows} rows without it`;
    const task = `\`label: [LABEL, ${name}]\` learns it as another task${gaps}`;
    return ignored(`an outcome by its name, not known when the model predicts; ${task}; ${keep}`);
  }
  if (weightNames.test(name) && !isTwoValued(profile)) {
    return ignored(`a weight of samples by its name: \`data.weight: ${name}\`; ${keep}`);
  }
  const time = form === "value" ? timeOf(profile) : undefined;
  if (time !== undefined) return { role: "time", why: time };
  const unread = unreadOf(profile);
  if (unread !== undefined) return ignored(unread);
  if (!isAnotherInEachRow(profile, data)) return featureOf(profile);
  return ignored(`none of ${present} rows repeats a value, so nothing can be learned; ${keep}`);
}

/** The reason why a column is a time; undefined: it is not a time. */
function timeOf(profile: ColumnProfile): string | undefined {
  const { name, texts, times, integers, fractions, min, max } = profile;
  if (texts > 0) return times === texts && fractions + integers === 0 ? "a time" : undefined;
  const isEpoch = epochs.some(([from, until]) => min >= from && max < until);
  const isOldName = /^(time|timestamp|ts|date|datetime|day|created|created_at|event_time)$/i.test(
    name,
  );
  const isTime = timeNames.test(name) && (isEpoch || (isOldName && min >= 0 && max > 1e6));
  return isTime ? "a time, as numbers" : undefined;
}

/**
 * Whether a column has another value in each row, and so teaches nothing about other rows. If only
 * a part of the data was read, ids by name are kept, as their values may repeat later.
 */
function isAnotherInEachRow(profile: ColumnProfile, { rows, isWhole }: DataProfile): boolean {
  const { name, form, seen, present, fractions } = profile;
  const isUnique = seen >= 0.999 * present && rows > 100 && fractions === 0 && form === "value";
  return isUnique && (isWhole || lineNames.test(name) || !idNames.test(name));
}

/** Why texts cannot be parsed as the values that they represent; undefined: they can. */
function unreadOf({ texts, otherNumbers, otherTimes, pythonLists, present }: ColumnProfile) {
  if (texts < present / 2) return undefined;
  if (otherTimes > texts / 2) {
    return "times in another form than ISO 8601: write them as 2026-01-31T12:30";
  }
  if (otherNumbers > texts / 2) {
    return "numbers with signs or commas that readers do not parse: write them as 12.50";
  }
  if (pythonLists > texts / 2) {
    return "lists in Python's notation: write their ids with one separator, such as 7|12";
  }
  return undefined;
}

/** The role of a feature column: dense for quantities, categorical for ids. */
function featureOf(profile: ColumnProfile): Role {
  const { name, form, integers, fractions, infinite, min, max } = profile;
  const { texts: all, distinct, booleans, missing, present } = profile;
  const share = (100 * missing) / (missing + present);
  const none = missing === 0 ? "" : `, ${share.toPrecision(2)} % missing`;
  const categorical = (why: string): Role => ({ role: "categorical", why: why + none });
  const dense = (why: string): Role => ({ role: "dense", why: why + none });
  if (form !== "value") return categorical(`a list, ${profile.meanLength.toFixed(1)} ids a row`);
  const texts = all - infinite; // Infinities and NaN are numbers that count as missing.
  if (texts > 0 && texts * 20 > integers + fractions) {
    const split = profile.separator === undefined ? "" : `, split at "${profile.separator}"`;
    return categorical(`text, ${distinct} different${split}`);
  }
  const range = `${shown(min)} to ${shown(max)}`;
  if (all > 0) return dense(`numbers, ${range}, with some text that counts as missing`);
  if (booleans > 0) return categorical("true and false");
  if (fractions > 0) return dense(`numbers, ${range}`);
  if (max >= 2 ** 53 || min <= -(2 ** 53)) return categorical(`integers beyond 2^53, ${distinct}`);
  if (idNames.test(name)) return categorical(`integers that are ids by their name, ${distinct}`);
  if (distinct <= fewValues) return categorical(`few integers, ${distinct} different`);
  const fills = (part: number) => distinct >= part * (max - min + 1);
  const isCounted = min >= 0 && min <= 1 && fills(countedShare);
  if (isCounted || (distinct > manyValues && fills(filledShare))) {
    return categorical(`integers that fill their range, ${distinct} different`);
  }
  return dense(`integers, ${range}`);
}

/** A number with at most 7 digits, without float64's rounding noise. */
function shown(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(7)));
}

function isTwoValued({ distinct, missing, times, form }: ColumnProfile): boolean {
  return form === "value" && distinct === 2 && missing === 0 && times === 0;
}

/** The positive one of two label values: the larger number, or a word such as `yes`. */
export function positiveOf({ values, distinct, texts }: ColumnProfile): string | undefined {
  if (distinct !== 2) return undefined;
  const [one = "", other = ""] = values;
  if (texts === 0 && ![one, other].some((text) => /^(true|false)$/i.test(text))) {
    return Number(one) > Number(other) ? one : other;
  }
  const found = values.filter((value) => positiveWords.includes(value.trim().toLowerCase()));
  return found.length === 1 ? found[0] : undefined;
}

/** Texts that usually denote a label's positive class. */
const positiveWords = [
  ...["1", "true", "yes", "y", "t", "click", "clicked", "positive", "pos"],
  ...["buy", "bought", "purchase", "purchased", "like", "liked", "converted"],
];

function labelReason(profile: ColumnProfile, given?: string): string {
  const { values, distinct, counts, present, min, max } = profile;
  if (!isTwoValued(profile)) return `${distinct} different values, ${min} to ${max}`;
  const positive = given ?? positiveOf(profile);
  if (positive === undefined) return values.join(" and ");
  const bytes = Buffer.from(positive, "utf8").toString("latin1");
  const share = ((100 * (counts.get(bytes) ?? 0)) / present).toFixed(1);
  return `${[...values].sort().join(" and ")}; ${positive} is the positive one, ${share} % of the rows`;
}
