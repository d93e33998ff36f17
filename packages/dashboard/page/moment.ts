// A time as text for people, and in ISO 8601 in its attribute.

import { html } from "./dom.ts";
import { momentText } from "./model/moment-text.ts";

export function Moment({ atMs }: { readonly atMs: number }) {
  const date = new Date(atMs);
  if (Number.isNaN(date.getTime())) return html`<span class="dim">time unknown</span>`;
  return html`<time class="dim" dateTime=${date.toISOString()}>${momentText(date)}</time>`;
}
