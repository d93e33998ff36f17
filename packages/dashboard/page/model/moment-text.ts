// Formats times of the page, all in one form: the browser's own time zone, year first and 24 hours,
// so that times sort and compare.

/** `2026-11-28 09:05:03` */
export function momentText(date: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-");
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":")}`;
}
