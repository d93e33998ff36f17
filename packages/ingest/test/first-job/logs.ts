// Ten logs as users bring them to `osiris init`, drawn from a seed: long tails, missing values,
// further outcomes, ratings, ids written as decimals, other delimiters and encodings. Each log has
// a training file and a test file of one distribution, and the rows of both for a regression.

import { purposes, RandomStream } from "../../../../src/ports/random.ts";

/** A row by column; undefined: the value is missing. */
export type LogRow = Readonly<Record<string, string | number | undefined>>;

/** A log as a user brings it. */
export interface Log {
  readonly title: string;
  /** The ending of its file names. */
  readonly ending: string;
  readonly label: string;
  /** The value of the label that counts as positive. */
  readonly positive: string;
  /** The columns that may be features: known before the outcome. */
  readonly features: readonly string[];
  readonly train: LogPart;
  readonly test: LogPart;
}

export interface LogPart {
  readonly rows: readonly LogRow[];
  readonly file: Buffer;
}

/** The differences of one kind of log from the others. */
interface Kind {
  readonly title: string;
  readonly users?: number;
  readonly items?: number;
  readonly ending?: string;
  readonly label?: string;
  readonly positive?: string;
  readonly features?: readonly string[];
  /** Turns a drawn impression into a row. */
  row?(drawn: Drawn): LogRow;
  /** Encodes rows as a file. @default CSV */
  file?(rows: readonly LogRow[]): Buffer;
}

/** One impression and its outcome. */
interface Drawn {
  readonly user: number;
  readonly item: number;
  readonly device: string;
  readonly country: string;
  readonly price: number;
  readonly visits: number;
  readonly click: 0 | 1;
  readonly second: number;
  /** Uniform between 0 and 1, for the extra columns of a kind. */
  readonly chance: number;
}

const devices = ["android", "ios", "desktop", "tablet"];
const countries = ["FR", "PL", "DE", "IT", "ES", "NL", "CZ", "PT", "SE"];
const usual = ["user_id", "item_id", "device", "country", "price", "visits"];

const plain = (drawn: Drawn): LogRow => {
  const { user, item, device, country, price, visits, click } = drawn;
  return { click, user_id: `u${user}`, item_id: `i${item}`, device, country, price, visits };
};

export const kinds: readonly Kind[] = [
  { title: "a long tail of users and items", users: 4000, items: 800 },
  {
    title: "gaps in every column",
    row(drawn) {
      const row = plain(drawn);
      const names = Object.keys(row).filter((name) => name !== "click");
      const gap = names[Math.floor(drawn.chance * 3 * names.length)];
      return gap === undefined ? row : { ...row, [gap]: undefined };
    },
  },
  {
    title: "other outcomes beside the click",
    row: (drawn) => ({
      ...plain(drawn),
      purchase: drawn.click === 1 && drawn.chance < 0.3 ? 1 : 0,
      dwell_time: drawn.click === 1 ? Math.round(100 * drawn.chance) : undefined,
    }),
  },
  {
    title: "ratings of one and five stars",
    label: "rating",
    positive: "5",
    row({ click, ...drawn }) {
      const { click: _, ...rest } = plain({ ...drawn, click });
      return { ...rest, rating: click === 1 ? 5 : 1 };
    },
  },
  {
    title: "ids that a program wrote as decimals",
    row: (drawn) => ({
      ...plain(drawn),
      user_id: drawn.chance < 0.05 ? undefined : `${drawn.user}.0`,
      item_id: `${drawn.item}.0`,
    }),
  },
  { title: "fields between semicolons", file: (rows) => csv(rows, ";") },
  {
    title: "decimal commas",
    file: (rows) =>
      csv(
        rows.map((row) => ({ ...row, price: String(row.price).replace(".", ",") })),
        ";",
      ),
  },
  {
    title: "names with blanks and letters of many languages",
    features: ["user name", "item_id", "Gerät", "国", "price", "visits"],
    row({ user, item, device, country, price, visits, click }) {
      const name = `${["Ana", "Łukasz", "José"][user % 3]} de la ${user}`;
      const city = `${country} North, "Old" Town`;
      return { click, "user name": name, item_id: item, Gerät: device, 国: city, price, visits };
    },
  },
  {
    title: "UTF-16, as spreadsheets write it",
    ending: "txt",
    file: (rows) => Buffer.from(`\uFEFF${csv(rows, "\t").toString("utf8")}`, "utf16le"),
  },
  {
    title: "a line break in a quoted field now and then",
    row: (drawn) => ({
      ...plain(drawn),
      title: drawn.chance < 0.003 ? "two\nlines" : `title ${drawn.item % 40}`,
      ts: 1_767_225_600 + 10 * drawn.second,
    }),
  },
];

export function drawLog(
  { title, ending = "csv", label = "click", positive = "1", features = usual, ...kind }: Kind,
  rows: { readonly train: number; readonly test: number },
  seed: number,
): Log {
  const { row = plain, file = (own: readonly LogRow[]) => csv(own, ","), users, items } = kind;
  const draw = impressions(seed, users ?? 300, items ?? 200);
  const part = (count: number): LogPart => {
    const own = Array.from({ length: count }, () => row(draw()));
    return { rows: own, file: file(own) };
  };
  const drawn = { train: part(rows.train), test: part(rows.test) };
  return { title, ending, label, positive, features, ...drawn };
}

/** Draws impressions one after the other: user, item, device and price decide the click. */
function impressions(seed: number, users: number, items: number): () => Drawn {
  const stream = new RandomStream(seed, purposes.sampleOrder);
  const uniform = () => stream.below(1_000_000) / 1_000_000;
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  const effects = (count: number) => Array.from({ length: count }, normal);
  const [ofUser, ofItem] = [effects(users), effects(items)];
  // Affinity of user groups to item groups: an interaction that no sum of effects explains.
  const affinity = effects(16);
  const [ofDevice, ofCountry] = [[-1.2, -0.4, 0.4, 1.2], effects(countries.length)];
  const tail = (count: number) => Math.min(count - 1, Math.floor(count * uniform() ** 2.5));
  let second = 0;
  return () => {
    const [user, item] = [tail(users), tail(items)];
    const [d, c] = [stream.below(4), Math.floor(countries.length * uniform() ** 2)];
    const price = Number(Math.exp(2 + normal()).toFixed(2));
    const visits = Math.floor(-40 * Math.log(1 - uniform()));
    const logit =
      -1 +
      0.6 * (ofUser[user] ?? 0) +
      0.6 * (ofItem[item] ?? 0) +
      (ofDevice[d] ?? 0) +
      0.5 * (ofCountry[c] ?? 0) -
      0.4 * (Math.log1p(price) - 2) +
      0.3 * (Math.log1p(visits) - 3) +
      (affinity[4 * (user % 4) + (item % 4)] ?? 0);
    const click = uniform() < 1 / (1 + Math.exp(-logit)) ? 1 : 0;
    const [device = "", country = ""] = [devices[d], countries[c]];
    return {
      user,
      item,
      device,
      country,
      price,
      visits,
      click,
      second: second++,
      chance: uniform(),
    };
  };
}

/** Encodes rows as CSV by RFC 4180. */
export function csv(rows: readonly LogRow[], delimiter: string): Buffer {
  const names = Object.keys(rows[0] ?? {});
  const quoted = (value: string | number | undefined) => {
    const text = String(value ?? "");
    const isPlain = !text.includes(delimiter) && !/["\n\r]/.test(text);
    return isPlain ? text : `"${text.replaceAll('"', '""')}"`;
  };
  const lines = rows.map((row) => names.map((name) => quoted(row[name])).join(delimiter));
  return Buffer.from([names.map(quoted).join(delimiter), ...lines, ""].join("\n"), "utf8");
}
