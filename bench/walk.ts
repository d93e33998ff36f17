// The last line of npm run size: files and lines of the reading walk of docs/architecture.md.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Files that a reader opens besides the walk's rows: the front door, messages, mailboxes, entry.
 */
const besides = [
  "index.ts",
  "src/wire/messages/messages.ts",
  "actors/runtime/mailbox.ts",
  "actors/threads/thread-entry.ts",
];
/** Files that rows name but a reader may skip: the reference kernels, and the exchange. */
const beside = /^src\/(kernels\/reference|exchange)\//;

/**
 * The files of the walk, and all files that a thorough reader opens: those that the last two
 * columns name too. A file without a folder lies beside the file of its row.
 */
export function walkIn(document: string): { readonly walk: string[]; readonly all: string[] } {
  const rows = [...document.matchAll(/^\| \d+ \| `([^`]+)` \|(.*)$/gm)];
  const walk = rows.map(([, file = ""]) => file);
  const named = rows.flatMap(([, file = "", text = ""]) =>
    [...text.matchAll(/`([\w./-]+\.(?:ts|h))`/g)].map(([, name = ""]) =>
      name.includes("/") ? name : join(dirname(file), name),
    ),
  );
  const all = new Set([...walk, ...named, ...besides]);
  return { walk, all: [...all].filter((file) => !beside.test(file) && existsSync(file)) };
}

/** `The walk: 12 files, 3,439 lines; with all that its rows name 33 files, 7,310 lines` */
export function walkLine(): string {
  const { walk, all } = walkIn(readFileSync("docs/architecture.md", "utf8"));
  const linesOf = (files: readonly string[]) =>
    files.reduce((sum, file) => sum + readFileSync(file, "utf8").split("\n").length - 1, 0);
  const told = (files: readonly string[]) =>
    `${files.length} files, ${linesOf(files).toLocaleString("en")} lines`;
  return `The walk: ${told(walk)}; with all that its rows name ${told(all)}`;
}
