// A real browser for tests of the dashboard's page: Debian's Chromium, driven by playwright-core.
// Console output, exceptions and policy violations of a page are collected.

import { type Browser, chromium, type Page } from "playwright-core";
import { browserFlags, browserPath } from "../../cli/support/browser.ts";
import type { Need } from "./needs.ts";

/** The need for Debian's package `chromium`, which .ci/run installs. */
export const realBrowser: Need = {
  isMet: () => browserPath() !== undefined,
  reason: "There is no Chromium on the PATH: `apt-get install chromium`.",
};

/** The longest wait for something on a page: minutes, which no busy machine reaches. */
const waitMs = 300_000;

export async function startBrowser(): Promise<Browser> {
  return await chromium.launch({
    executablePath: browserPath() ?? "",
    args: [...browserFlags],
    timeout: waitMs,
  });
}

/** A tab, and the problems in it. */
export interface Tab extends AsyncDisposable {
  readonly page: Page;
  readonly problems: readonly string[];
}

export async function openTab(
  browser: Browser,
  url: string,
  size: { readonly width: number; readonly height: number } = { width: 1280, height: 900 },
  more: { readonly colorScheme?: "light" | "dark" } = {},
): Promise<Tab> {
  const context = await browser.newContext({ viewport: size, ...more });
  context.setDefaultTimeout(waitMs);
  context.setDefaultNavigationTimeout(waitMs);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(message.text());
  });
  page.on("pageerror", (error) => void problems.push(String(error.stack)));
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return { page, problems, [Symbol.asyncDispose]: () => context.close() };
}

/**
 * Element boxes that lie outside the window or their frame, or collapse; pixels are not compared.
 */
export async function brokenBoxes(page: Page): Promise<string[]> {
  return await page.evaluate(findBroken);
}

/** A script that runs in the page; as text, since the tests do not have DOM types. */
const findBroken = `(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width + 1) found.push("the page scrolls sideways");
  const boxes = document.querySelectorAll("main section, .chart, .panel, .figures > div");
  for (const box of boxes) {
    const { left, right, height } = box.getBoundingClientRect();
    const name = box.tagName.toLowerCase() + "." + box.className;
    if (left < -1 || right > width + 1) found.push(name + " from " + left + " to " + right);
    if (height < 8) found.push(name + " is " + height + " high");
  }
  for (const canvas of document.querySelectorAll("canvas")) {
    const chart = canvas.closest(".chart").getBoundingClientRect();
    if (canvas.getBoundingClientRect().right > chart.right + 1) found.push("a chart leaves its frame");
  }
  return found;
})()`;
