// The page's renderer: preact, with htm for its templates. Values enter the page as text only: a
// name with markup in it is shown literally.

import htm from "htm";
import { h, type VNode } from "preact";
import { momentText } from "./model/run-story.ts";
import { withBlanks } from "./model/template-blanks.ts";

export { Component, render, type VNode } from "preact";
export { useEffect, useMemo, useState } from "preact/hooks";

/** A template with one top element. */
type Template = (strings: TemplateStringsArray, ...values: unknown[]) => VNode;

const bound = htm.bind(h) as Template;
/**
 * htm caches a template by its array of strings: maps each template to its one array with blanks.
 */
const spaced = new WeakMap<TemplateStringsArray, TemplateStringsArray>();

/** A template of elements, with blanks at line breaks as in an HTML file. */
export const html: Template = (strings, ...values) => {
  let template = spaced.get(strings);
  if (template === undefined) {
    // htm reads only the strings, never `raw`, which the type requires.
    template = withBlanks(strings) as unknown as TemplateStringsArray;
    spaced.set(strings, template);
  }
  return bound(template, ...values);
};

export function Moment({ atMs }: { readonly atMs: number }) {
  const date = new Date(atMs);
  if (Number.isNaN(date.getTime())) return html`<span class="dim">time unknown</span>`;
  return html`<time class="dim" dateTime=${date.toISOString()}>${momentText(date)}</time>`;
}
