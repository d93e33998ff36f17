// Numbers as people read them.

/** `1,234,567` */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** `1.23`, `12.3`, `1,230`: three significant digits, never with an exponent. */
export function figure(value: number): string {
  const digits = 3;
  return value.toLocaleString("en-US", {
    minimumSignificantDigits: digits,
    maximumSignificantDigits: digits,
  });
}

/** Precision, recall and F1 at each threshold, as lines of a report. */
export function thresholdLines(
  thresholds: readonly (Readonly<Record<"precision" | "recall" | "f1", number>> & {
    readonly threshold: number;
  })[] = [],
): string[] {
  return thresholds.map(({ threshold, precision, recall, f1 }) => {
    const name = `From ${threshold} on`.padEnd(20);
    return `${name} precision ${metric(precision)}, recall ${metric(recall)}, F1 ${metric(f1)}`;
  });
}

/** `0.7912`; `-` where there is none. */
export function metric(value: number | null | undefined): string {
  return value === undefined || value === null || Number.isNaN(value) ? "-" : value.toFixed(4);
}

/** `0.82 s`, `43 s`, `2 h 05 min` */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "-";
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** `1 device`, `2 devices` */
export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** `512 B`, `1.23 GB`: powers of 1000. */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  let rest = value;
  while (rest >= 999.5 && at < units.length - 1) {
    rest /= 1000;
    at++;
  }
  return `${at === 0 ? Math.round(rest) : figure(rest)} ${units[at]}`;
}

/** `41.6 %` */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** `12.3 us`, `4.56 ms`, `1.20 s` */
export function shortTime(seconds: number): string {
  if (seconds === 0) return "0";
  if (seconds < 999.5e-6) return `${figure(1e6 * seconds)} us`;
  if (seconds < 0.9995) return `${figure(1e3 * seconds)} ms`;
  return `${figure(seconds)} s`;
}

/** Aligns cells in columns as wide as their widest cell: the first one left, the others right. */
export function aligned(lines: readonly (readonly string[])[]): string[] {
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(...lines.map((cells) => cells[column]?.length ?? 0)),
  );
  return lines.map((cells) =>
    cells
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return column === 0 ? cell.padEnd(width) : cell.padStart(width + 2);
      })
      .join(""),
  );
}
