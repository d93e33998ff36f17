// Makes foreign text safe to show on a terminal.

/**
 * The text with control characters as `\x1b`, except line ends and tabs. Messages quote names,
 * paths and data lines of other people, and a terminal would obey control characters in them.
 */
export function visible(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, (one) => {
    return `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}

/** Most characters of a foreign name in a message: some requests are one long name. */
const nameMax = 100;

/** A foreign name for a message: its beginning, where it is long. */
export function shownName(name: string): string {
  return name.length > nameMax ? `${name.slice(0, nameMax - 3)}...` : name;
}
