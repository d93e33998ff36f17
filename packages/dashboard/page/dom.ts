// What draws: preact, and htm for its templates. Text goes into the page as text alone: a name with
// markup in it is shown as it is written.

import htm from "htm";
import { h, type VNode } from "preact";
import { withBlanks } from "./model/template-blanks.ts";

export { Component, render, type VNode } from "preact";
export { useEffect, useMemo, useState } from "preact/hooks";

/** A template with one element on top. */
type Template = (strings: TemplateStringsArray, ...values: unknown[]) => VNode;

const bound = htm.bind(h) as Template;
/** htm knows a template by its strings: each has one array of them. */
const spaced = new WeakMap<TemplateStringsArray, TemplateStringsArray>();

/** A template of elements, with the blanks that a file of HTML would have. */
export const html: Template = (strings, ...values) => {
  let own = spaced.get(strings);
  if (own === undefined) {
    // htm reads the strings alone, never `raw`, which the type asks for.
    own = withBlanks(strings) as unknown as TemplateStringsArray;
    spaced.set(strings, own);
  }
  return bound(own, ...values);
};
