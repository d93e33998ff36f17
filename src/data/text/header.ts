// Parses the header of a CSV file: the names of its columns.

import { InputUnusableError } from "../../errors/errors.ts";
import { decodeText } from "./faults.ts";
import { splitLine } from "./line-decoder.ts";

/**
 * The column names in the first line of the file at `path`. `line` is undefined if it is too long.
 * @throws InputUnusableError if the line is unusable, or two columns have the same name
 */
export function headerNames(path: string, line: string | undefined, delimiter: string): string[] {
  const refuse = (why: string) => {
    return new InputUnusableError(path, `The header of the data file ${path} is unusable: ${why}`);
  };
  const fields = line === undefined ? "it is too long" : splitLine(line, delimiter, true);
  if (typeof fields === "string") throw refuse(fields);
  const names = fields.map(decodeText);
  const seen = new Set<string>();
  for (const name of names) {
    // Columns without a name are never referenced, so they may repeat.
    if (seen.has(name) && name !== "") throw refuse(twice(name, names));
    seen.add(name);
  }
  return names;
}

function twice(name: string, names: readonly string[]): string {
  const places = names.flatMap((other, i) => (other === name ? i + 1 : []));
  return (
    `it has the column \`${name}\` more than once (fields ${places.join(", ")}); ` +
    "give each column a name of its own"
  );
}
