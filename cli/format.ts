// Numbers as people read them.

/** `1,234,567` */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
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
