// A case of wrong input: changes to a valid job and its data, and the expected message.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** A job or a file with one mistake, and the sentence about it. */
export interface WrongInput {
  /** The mistake, as the end of the test's title. */
  readonly title: string;
  /** Options of the usual job by dotted path; `undefined` removes one. */
  readonly set?: Readonly<Record<string, unknown>>;
  /** Changes the lines of `clicks.csv`, the header first. */
  readonly lines?: (lines: string[]) => string[];
  /** Further files by path. */
  readonly files?: Readonly<Record<string, string>>;
  /** Commands that run before, and must succeed. */
  readonly before?: readonly (readonly string[])[];
  /** @default ["train", "job.json", "--devices", "1"] */
  readonly args?: readonly string[];
  /**
   * The lines on stderr, each without its `osiris: `; a regular expression where machines differ.
   */
  readonly says: readonly (string | RegExp)[];
}

/** A valid job: two tables, one dense column, from `clicks.csv`. */
export function usualJob() {
  return {
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [
        { name: "user", rows: 50, dim: 4 },
        { name: "item", rows: 20, dim: 4 },
      ],
      bottom: [4],
      top: [4, 1],
    },
    data: {
      kind: "csv",
      paths: ["clicks.csv"],
      label: "clicked",
      dense: ["price"],
      categorical: ["user", "item"],
      batchSize: 20,
      cache: "cache",
    },
    evaluation: { fraction: 0.2 },
    checkpoint: { directory: "checkpoints" },
  };
}

/** A hundred valid lines below their header. */
export function usualLines(): string[] {
  const lines = Array.from({ length: 100 }, (_, i) => {
    return `${i % 3 === 0 ? 1 : 0},${(i * 7) % 10}.5,u${(i * 13) % 40},${(i * 11) % 20}`;
  });
  return ["clicked,price,user,item", ...lines];
}

/** Writes the files of a case into a directory. */
export function writeCase({ set, lines, files }: WrongInput, directory: string): void {
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  };
  const job = usualJob();
  for (const [path, value] of Object.entries(set ?? {})) put(job, path.split("."), value);
  write("job.json", JSON.stringify(job));
  const text = lines?.(usualLines()) ?? usualLines();
  write("clicks.csv", `${text.join("\n")}\n`);
  for (const [path, content] of Object.entries(files ?? {})) write(path, content);
}

function put(object: object, [key = "", ...rest]: string[], value: unknown): void {
  const inner = object as Record<string, unknown>;
  if (rest.length > 0) {
    inner[key] ??= {};
    put(inner[key] as object, rest, value);
  } else if (value === undefined) delete inner[key];
  else inner[key] = value;
}
