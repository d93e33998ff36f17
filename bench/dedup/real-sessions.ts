// Real sessions as rows: every click of YooChoose with the earlier clicks of its session, and every
// rating of MovieLens with the user's profile and the films that the user liked before. The files
// are not in this repository; `--data` names their directory.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

/** A sample of a log. */
export interface LoggedRow {
  readonly request: string;
  readonly session: number;
  /** Milliseconds since 1970. */
  readonly time: number;
  /** Further columns of the row; some are lists of ids. */
  readonly [column: string]: unknown;
}

const files = {
  yoochoose: ["yoochoose100k_train.tsv.gz"],
  ml100k: ["ml100k_u.data.gz", "ml100k_u.user.gz"],
} as const;

export type RealName = keyof typeof files;
export const realNames = Object.keys(files) as RealName[];

/** Most ids of a list; the newest are kept. */
const historyMax = 50;
/** A longer gap between two ratings of a user begins a new session. */
const sessionMs = 30 * 60 * 1000;

/** Whether the files of some sessions are in the directory. */
export function hasSessions(directory: string, name: RealName): boolean {
  return files[name].every((file) => existsSync(join(directory, "session", file)));
}

/** The rows in the order of time. */
export function realRows(directory: string, name: RealName): LoggedRow[] {
  const [clicks = [], users = []] = files[name].map((file) => {
    const text = gunzipSync(readFileSync(join(directory, "session", file))).toString("latin1");
    return text.trimEnd().split("\n");
  });
  const rows = name === "yoochoose" ? yoochoose(clicks) : movielens(clicks, users);
  return rows.sort((a, b) => a.time - b.time);
}

/** SessionId, ItemId, Time in seconds. */
function yoochoose(lines: readonly string[]): LoggedRow[] {
  const seen = new Map<number, number[]>();
  return lines.slice(1).map((line, i) => {
    const [session = 0, item = 0, seconds = 0] = line.split("\t").map(Number);
    const before = seen.get(session) ?? [];
    const history = before.slice(-historyMax);
    seen.set(session, [...before, item]);
    return { request: `r${i}`, session, time: Math.round(1000 * seconds), item, history };
  });
}

/** user, item, rating, seconds; and user|age|gender|occupation|zip. */
function movielens(lines: readonly string[], users: readonly string[]): LoggedRow[] {
  const occupations = new Map<string, number>();
  const profiles = new Map(
    users.map((line) => {
      const [user = "", age = "", gender = "", work = "", zip = ""] = line.split("|");
      if (!occupations.has(work)) occupations.set(work, occupations.size);
      const region = /^\d/.test(zip) ? Number(zip[0]) : 10;
      const profile = [Number(age), gender === "M" ? 101 : 102, 110 + (occupations.get(work) ?? 0)];
      return [Number(user), [...profile, 200 + region]] as const;
    }),
  );
  const ratings = lines.map((line) => line.split("\t").map(Number));
  ratings.sort(([, , , a = 0], [, , , b = 0]) => a - b);
  const state = new Map<number, { time: number; session: number; liked: number[] }>();
  let sessions = 0;
  return ratings.map(([user = 0, item = 0, rating = 0, seconds = 0], i) => {
    const time = 1000 * seconds;
    const before = state.get(user);
    const isNew = before === undefined || time - before.time > sessionMs;
    const session = isNew ? sessions++ : before.session;
    const liked = before?.liked ?? [];
    const own = rating >= 4 ? [...liked, item].slice(-historyMax) : liked;
    state.set(user, { time, session, liked: own });
    const profile = profiles.get(user) ?? [];
    const what = { item, label: Number(rating >= 4), profile, liked };
    return { request: `r${i}`, session, time, user, ...what };
  });
}
