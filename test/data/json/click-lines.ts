// The rows of clicks.csv as JSON Lines.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "csv-parse/sync";

/** The rows as a CSV file. */
export const clicks = join(import.meta.dirname, "../../../../test/fixtures/parquet/clicks.csv");

/** Writes the rows of the CSV file as a program would: numbers, booleans, lists, objects. */
export function writeLines(directory: string): string {
  const rows: Record<string, string>[] = parse(readFileSync(clicks), { columns: true });
  const lines = rows.map((row, i) => {
    const members = Object.entries(row).flatMap(([name, text]): [string, unknown][] => {
      if (text === "") return i % 2 === 0 ? [] : [[name, null]];
      if (name === "tags" || name === "words") return [[name, text.split("|")]];
      if (name === "scored") {
        const pairs = text.split("|").map((one) => one.split(":"));
        if (pairs.some(([, weight]) => weight === undefined || Number.isNaN(Number(weight)))) {
          return [[name, text]];
        }
        return [[name, pairs.map(([id, weight]) => [id, Number(weight)])]];
      }
      if (text === "true" || text === "false") return [[name, text === "true"]];
      const isNumber = String(Number(text)) === text && Number.isFinite(Number(text));
      return [[name, isNumber && i % 3 > 0 ? Number(text) : text]];
    });
    const line = JSON.stringify(Object.fromEntries(members));
    // 64-bit ids as numbers, as other languages write them; and some characters as escapes.
    const long = line.replace(/"session":"(-?\d+)"/, '"session":$1');
    return i % 5 === 0 ? long.replace(/[\u0080-\uffff]/g, escaped) : long;
  });
  const path = join(directory, "clicks.jsonl");
  writeFileSync(path, `${lines.join("\n")}\n`);
  return path;
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
