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
