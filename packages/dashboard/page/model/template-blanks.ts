// Blanks of a template: as in an HTML file, a line break next to a word or a value is a blank. htm
// itself drops it, so that words run together. A break between two tags has no effect.

/** The strings of a template with their line breaks as blanks, or without. */
export function withBlanks(strings: readonly string[]): readonly string[] {
  return strings.map((text, at) =>
    text.replace(/\s*\n\s*/g, (_, offset: number) => {
      const [before, after] = [text.slice(0, offset), text.slice(offset).trimStart()];
      const isAtEnd = (before === "" && at === 0) || (after === "" && at === strings.length - 1);
      const isBetween = before.endsWith(">") && after.startsWith("<");
      return isAtEnd || isBetween ? "" : " ";
    }),
  );
}
