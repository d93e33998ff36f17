// What draws: preact, and htm for its templates. Text goes into the page as text alone: a name with
// markup in it is shown as it is written.

import htm from "htm";
import { h, type VNode } from "preact";

export { Component, render, type VNode } from "preact";
export { useEffect, useMemo, useState } from "preact/hooks";

/** A template with one element on top. */
type Template = (strings: TemplateStringsArray, ...values: unknown[]) => VNode;

/** A template of elements. */
export const html: Template = htm.bind(h) as Template;
