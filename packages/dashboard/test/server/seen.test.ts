// The dashboard's page, seen in a real browser on a live cluster.

import type { ExecutionContext } from "ava";
import type { Page } from "playwright-core";
import { brokenBoxes, openTab } from "../../../../test/helpers/browsers.ts";
import { startTestCluster } from "../../../../test/helpers/clusters/clusters.ts";
import { testAll } from "../../../../test/helpers/needs.ts";
import { dashboard } from "../../server/dashboard.ts";
import { type Desk, withBrowser } from "./desk.ts";

const views = ["runs", "run", "compare", "tree", "incidents", "tiers", "plan", "hosts", "chaos"];
const wide = { width: 1280, height: 900 };
const narrow = { width: 390, height: 844 };

const show = async (page: Page, view: string) => {
  await page.click(`nav a[href^="#/${view}/"], nav a[href="#/${view}"]`);
  await page.waitForSelector(
    `nav a[aria-current]:text-is("${view[0]?.toUpperCase()}${view.slice(1)}")`,
  );
  await page.waitForSelector("main h2");
};

/** By view: the selector of an element that the view must show for a live run. */
const seen: Readonly<Record<string, string>> = {
  runs: "tbody th a",
  run: "#job dt:text-is('Tables')",
  compare: "#compare-title",
  tree: '[data-actor="device:1"]',
  incidents: "#incidents-title",
  tiers: "#tiers-title",
  plan: 'td:text-is("<img src=x onerror=alert(1)>")',
  hosts: 'tbody th:text-is("host:0")',
  chaos: "form select",
};

/** Controls and charts without a name for a screen reader. */
const findNameless = `[...document.querySelectorAll(
  "button, a, input, select, textarea, meter, progress, [role=img], [role=treeitem], main > section"
)].filter((one) => {
  const labelled = one.getAttribute("aria-label") || one.getAttribute("aria-labelledby");
  return !labelled && !one.textContent.trim() && !(one.labels && one.labels.length > 0);
}).map((one) => one.outerHTML.slice(0, 120))`;

/** Whether the chosen view's tab is visible in the bar, which scrolls on a narrow screen. */
const isChosenInSight = `(view) => {
  const chosen = document.querySelector("nav a[aria-current]");
  const { left, right } = chosen.getBoundingClientRect();
  const isIn = left > -1 && right < document.documentElement.clientWidth + 1;
  return chosen.textContent.toLowerCase() === view && isIn;
}`;

/**
 * Cells of cards beyond the window, and scrolling elements without the shadow that shows that they
 * scroll.
 */
const findCut = `[...document.querySelectorAll(".cards td, .cards th, .scroll, nav ul")]
  .filter((one) => {
    if (one.matches(".scroll, nav ul")) return !/gradient/.test(getComputedStyle(one).backgroundImage);
    return one.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
  }).map((one) => one.outerHTML.slice(0, 120))`;

async function lookAtAll(
  t: ExecutionContext,
  { browser, scene }: Desk,
  size: typeof wide,
  scheme: "light" | "dark",
) {
  const { url } = await scene();
  await using tab = await openTab(browser, url, size, { colorScheme: scheme });
  await tab.page.waitForSelector(".live.on");
  for (const view of views) {
    await show(tab.page, view);
    await tab.page.waitForSelector(seen[view] ?? "h2");
    t.deepEqual(await tab.page.evaluate<string[]>(findNameless), [], `${view} without a name`);
    t.deepEqual(await brokenBoxes(tab.page), [], `${view} at ${size.width} pixels`);
    t.deepEqual(await tab.page.evaluate<string[]>(findCut), [], `${view}: cells out of sight`);
  }
  // A person who opens a view by its address clicks no tab, yet sees which one is chosen.
  for (const view of ["runs", "chaos"]) {
    await tab.page.evaluate(`location.hash = "#/${view}"`);
    await tab.page.waitForFunction(isChosenInSight, view);
  }
  t.deepEqual(tab.problems, []);
}

withBrowser.test(
  "at 1,280 pixels every view shows a live run, escapes markup and names each control",
  async (t, desk) => {
    await lookAtAll(t, desk, wide, "light");
  },
);

withBrowser.test("every view fits into 390 pixels, in dark mode", async (t, desk) => {
  await lookAtAll(t, desk, narrow, "dark");
});

withBrowser.test(
  "a failed device is visible: its branch flashes and counts restarts; its incident is timed",
  async (t, { browser, scene }) => {
    const { run, url } = await scene();
    await using tab = await openTab(browser, url);
    await using tree = await openTab(browser, url);
    await show(tree.page, "tree");
    await tree.page.waitForSelector('[data-actor="device:1"]');
    // A flash is short: the page itself records it, so that a slow machine does not miss it.
    await tree.page.evaluate(noteFlash);
    await show(tab.page, "run");
    await tab.page.waitForSelector("#chart-loss canvas");
    await show(tab.page, "chaos");
    await tab.page.selectOption("form select", "device:1");
    // Steps between the checkpoint and the fault are trained, and reported, twice.
    const { step } = await run.checkpoint();
    for await (const event of run.events()) {
      if (event.type === "run.evaluated" && event.step > step) break;
    }
    await tab.page.click("form button");
    await tree.page.waitForSelector('[data-actor="device:1"] .badge.bad:text("restarted ×1")');
    t.true(await tree.page.evaluate<boolean>("window.hasFlashed === true"));
    await show(tab.page, "incidents");
    await tab.page.waitForSelector(".timeline .done");
    const phases = await tab.page.locator(".timeline .phase").allTextContents();
    t.deepEqual(phases.slice(-4), ["decide", "restore", "replay", "caught up"]);
    const times = await tab.page.locator(".timeline .ms").allTextContents();
    t.true(times.length > 0 && times.every((text) => /^[\d,]+ ms$/.test(text)), times.join());
    await tab.page.waitForSelector('.mark.good:text("computed again: equal at")');
    // The legend has the last value of each stage, and is updated with the curves.
    await show(tab.page, "run");
    const legend = "#chart-stages .u-legend";
    await tab.page.waitForSelector(legend);
    const before = await tab.page.innerText(legend);
    const isLater = `(was) => document.querySelector("${legend}").innerText !== was`;
    await tab.page.waitForFunction(isLater, before);
    t.notRegex(await tab.page.innerText(legend), /--|–/);
    t.deepEqual([...tab.problems, ...tree.problems], []);
  },
);

const noteFlash = `new MutationObserver(() => {
  if (document.querySelector('[data-actor="device:1"].flash') !== null) window.hasFlashed = true;
}).observe(document.body, { subtree: true, childList: true, attributes: true })`;

withBrowser.test(
  "with the keyboard alone, a person reaches every view and inspects an actor",
  async (t, { browser, scene }) => {
    const { url } = await scene();
    await using tab = await openTab(browser, url);
    const { page } = tab;
    await page.waitForSelector("tbody th a");
    const focused = () => page.evaluate<string>("document.activeElement.textContent.trim()");
    const isIn = (role: string) =>
      page.evaluate<boolean>(`document.activeElement.getAttribute("role") === "${role}"`);
    await page.keyboard.press("Tab");
    t.is(await focused(), "Skip to content");
    const reached: string[] = [];
    for (const _ of views) {
      await page.keyboard.press("Tab");
      reached.push(await focused());
    }
    t.deepEqual(
      reached.map((name) => name.toLowerCase()),
      views,
    );
    await page.focus('nav a:text-is("Tree")');
    await page.keyboard.press("Enter");
    await page.waitForSelector('[data-actor="device:0"]');
    for (let presses = 0; presses < 12 && !(await isIn("treeitem")); presses++) {
      await page.keyboard.press("Tab");
    }
    for (let presses = 0; presses < 20 && !(await focused()).includes("device:0"); presses++) {
      await page.keyboard.press("ArrowDown");
    }
    t.regex(await focused(), /device:0/);
    await page.keyboard.press("Enter");
    await page.waitForSelector('section[aria-label="Actor device:0"] dd');
    await page.waitForSelector(
      'section[aria-label="Actor device:0"] .messages li b:text("device.")',
    );
    t.deepEqual(tab.problems, []);
  },
);

withBrowser.test(
  "a page reconnects to a restarted server, and its figures continue",
  async (t, { browser }) => {
    const token = "the-same-token-again";
    await using first = await startTestCluster(1, { dashboard: dashboard({ token }) });
    const { url = "" } = first.cluster.dashboard ?? {};
    const port = Number(new URL(url).port);
    await using tab = await openTab(browser, url);
    await tab.page.waitForSelector(".live.on");
    await first.cluster.close();
    await tab.page.waitForSelector(".live.off");
    await using second = await startTestCluster(1, { dashboard: dashboard({ token, port }) });
    await tab.page.waitForSelector(".live.on");
    const run = await second.cluster.submit(second.job({ name: "after" }));
    await tab.page.waitForSelector('td.name:text-is("after")');
    await run.result();
    await tab.page.waitForSelector('.state:text-is("finished")');
    // The browser itself logs the connections that were refused meanwhile.
    const refused = /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY_RESPONSE/;
    t.deepEqual(
      tab.problems.filter((one) => !refused.test(one)),
      [],
    );
  },
  testAll,
);
