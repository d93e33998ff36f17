// Makes text from users, files and the network safe to show on a terminal.

/**
 * Escapes control characters, except line ends and tabs, as in `\x1b`. Messages quote names, paths
 * and data lines of other people, and a terminal would execute control characters in them.
 */
export function visible(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, (one) => {
    return `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}

/** Most characters of a foreign name in a message, as a request may be one long name. */
const nameMax = 100;

/** A foreign name for a message, truncated if it is long. */
export function shownName(name: string): string {
  return name.length > nameMax ? `${name.slice(0, nameMax - 3)}...` : name;
}
