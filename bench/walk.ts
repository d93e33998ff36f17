// The last lines of npm run size: files and lines of the reading walks of docs/architecture.md.

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
 * The files of a walk (its second column), and all files that a thorough reader opens (also the
 * files in the last two columns). A file without a folder lies beside the file of its row.
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

/** `The walk of a job: 12 files, 3,439 lines; with all that its rows name 33 files, 7,310 lines` */
export function walkLines(): string[] {
  const linesOf = (files: readonly string[]) =>
    files.reduce((sum, file) => sum + readFileSync(file, "utf8").split("\n").length - 1, 0);
  const sizeOf = (files: readonly string[]) =>
    `${files.length} files, ${linesOf(files).toLocaleString("en")} lines`;
  return walksIn(readFileSync("docs/architecture.md", "utf8")).map(({ title, section }) => {
    const { walk, all } = walkIn(section);
    return `The walk ${title}: ${sizeOf(walk)}; with all that its rows name ${sizeOf(all)}`;
  });
}

/** The sections of the walks, and their titles in lower case: `of a job`. */
export function walksIn(document: string): { readonly title: string; readonly section: string }[] {
  const [, walks = ""] = document.split(/^## The walk$|^## One step$/m);
  return walks
    .split(/^### /m)
    .slice(1)
    .map((section) => {
      const [title = ""] = section.split("\n");
      return { title: title.toLowerCase(), section };
    });
}
