// What each column becomes in a first job: the label, a dense feature, a feature of ids, the time
// by which the data are split, or nothing. Every decision has a reason that people can read.

import { InputUnusableError } from "../../src/errors/errors.ts";
import { expected } from "../../src/ports/check-options.ts";
import type { ColumnProfile } from "./column-tally.ts";
import type { DataProfile } from "./profile-columns.ts";

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
  /** The value of the label that counts as positive. */
  readonly positive?: string | undefined;
  /** The column of the time. */
  readonly time?: string | undefined;
  /** Columns that are left out. */
  readonly ignored?: readonly string[] | undefined;
  /** Columns that are features, whatever their names and values say. */
  readonly features?: readonly string[] | undefined;
}

/** Names that labels have, the likeliest first. */
const labelNames = [
  ...["label", "click", "clicked", "is_click", "target", "y", "converted", "conversion"],
  ...["purchase", "purchased", "buy", "like", "liked", "rating"],
];
/**
 * Names of what happens after the prediction, as the label does: known of old lines, and of none
 * that is to be predicted.
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
/** Seconds, milliseconds, microseconds and nanoseconds from 2001 to 2096. */
const epochs = [1, 1e3, 1e6, 1e9].map((unit) => [1e9 * unit, 4e9 * unit] as const);
/** Names of columns that number or identify lines, such as `row_id`: no value repeats. */
const lineNames =
  /^(.*_)?(row|line|record|request|impression|event|log|index|uuid|guid)(_?id)?$|^id$/i;
const weightNames = /^(.*_)?(weight|sample_weight|importance)$/i;
const idNames = new RegExp(
  "(^|[^a-z])(id|ids|code|zip|type|category|kind|key|hash)$|[a-z](Id|ID|Code|Type)$|" +
    "^(user|item|product|movie|ad|campaign|publisher|advertiser|site|app|device|page|query|" +
    "country|region|city|brand|shop|store|merchant|author|session)s?$",
  "i",
);
/** Integers of a name that tells nothing are ids where they have so few different values. */
const fewValues = 32;
/** Or many, from 0 or 1 on, which fill their range: counts are rare where they are large. */
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
  const { ignored = [], features = [], time } = options;
  for (const [option, own] of [
    ["label", options.label],
    ["time", time],
    ...ignored.map((name) => ["ignore", name] as const),
    ...features.map((name) => ["feature", name] as const),
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

type Role = Pick<AssignedColumn, "role" | "why">;

function roleOf(profile: ColumnProfile, data: DataProfile): Role {
  const { name, form, present, distinct, missing } = profile;
  const ignored = (why: string): Role => ({ role: "ignored", why });
  const keep = `\`--feature ${name}\` keeps it`;
  if (name === "") return ignored("a column without a name cannot be asked for");
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
  return ignored(`another value in each of ${present} rows tells nothing of other rows; ${keep}`);
}

/** Why a column is a time; undefined: it is none. */
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

/** Whether a column tells each row seen from the others. Ids of a part may come again later. */
function isAnotherInEachRow(profile: ColumnProfile, { rows, isWhole }: DataProfile): boolean {
  const { name, form, seen, present, fractions } = profile;
  const isUnique = seen >= 0.999 * present && rows > 100 && fractions === 0 && form === "value";
  return isUnique && (isWhole || lineNames.test(name) || !idNames.test(name));
}

/** Why a column of text cannot be read as what it is; undefined: it can. */
function unreadOf({ texts, otherNumbers, otherTimes, pythonLists, present }: ColumnProfile) {
  if (texts < present / 2) return undefined;
  if (otherTimes > texts / 2) {
    return "times in another form than ISO 8601: write them as 2026-01-31T12:30";
  }
  if (otherNumbers > texts / 2) {
    return "numbers with a sign or commas, which are no numbers to a reader: write them as 12.50";
  }
  if (pythonLists > texts / 2) {
    return "lists as Python writes them: write their ids with one character between them, 7|12";
  }
  return undefined;
}

/** A quantity, or ids, whatever the name says of its meaning. */
function featureOf(profile: ColumnProfile): Role {
  const { name, form, integers, fractions, infinite, min, max } = profile;
  const { texts: all, distinct, booleans, missing, present } = profile;
  const share = (100 * missing) / (missing + present);
  const none = missing === 0 ? "" : `, ${share.toPrecision(2)} % missing`;
  const categorical = (why: string): Role => ({ role: "categorical", why: why + none });
  const dense = (why: string): Role => ({ role: "dense", why: why + none });
  if (form !== "value") return categorical(`a list, ${profile.meanLength.toFixed(1)} ids a row`);
  const texts = all - infinite; // Infinite values are numbers that count as missing.
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

/** A number as people write it: no digits that float64 adds. */
function shown(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(7)));
}

function isTwoValued({ distinct, missing, times, form }: ColumnProfile): boolean {
  return form === "value" && distinct === 2 && missing === 0 && times === 0;
}

/** The value that counts as positive of two: the larger number, or the word that says so. */
export function positiveOf({ values, distinct, texts }: ColumnProfile): string | undefined {
  if (distinct !== 2) return undefined;
  const [one = "", other = ""] = values;
  if (texts === 0 && ![one, other].some((text) => /^(true|false)$/i.test(text))) {
    return Number(one) > Number(other) ? one : other;
  }
  const found = values.filter((value) => positiveWords.includes(value.trim().toLowerCase()));
  return found.length === 1 ? found[0] : undefined;
}

/** Texts that stand for the positive class of a label. */
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
