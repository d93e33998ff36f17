// Text of others as a terminal may show it.

/**
 * The text with control characters as `\x1b`, but for ends of lines and tabs: names and paths of
 * others, and lines of their data, stand in messages, and a terminal would obey them.
 */
export function visible(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, (one) => {
    return `\\x${one.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
}
