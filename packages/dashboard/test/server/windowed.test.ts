// Long lists of the page, in a real browser on a cluster of 128 devices and 5,000 tables: only the
// visible rows are in the document, and wheel, keys and filter reach all others.

import type { Page } from "playwright-core";
import { openTab } from "../../../../test/helpers/browsers.ts";
import { testAll } from "../../../../test/helpers/needs.ts";
import { largeDevices, largeTables, openLargeCluster } from "../../bench/large-cluster.ts";
import { withBrowser } from "./desk.ts";

const list = '[role="region"][aria-label="Shards"]';
/** Far fewer rows than the list has, and more than fit into a window. */
const drawnMax = 80;

const drawn = (page: Page) => page.locator(`${list} tbody tr[aria-rowindex]`).count();
/** The row with this index among all rows, whose header is `shard:<index>`. */
const row = (index: number) =>
  `${list} tr[aria-rowindex="${index + 2}"] th:text-is("shard:${index}")`;
const inView = async (page: Page, index: number) => {
  await page.waitForSelector(row(index));
  return await page.evaluate<boolean>(`(() => {
    const region = document.querySelector('${list}').getBoundingClientRect();
    const { top, bottom } = document.querySelector('${list} tr[aria-rowindex="${index + 2}"]').getBoundingClientRect();
    return top < region.bottom && bottom > region.top;
  })()`);
};

/** The number of the row near the lower edge of the visible part; 0: none. */
const rowInSight = (page: Page) =>
  page.evaluate<number>(`(() => {
    const { left, bottom } = document.querySelector('${list}').getBoundingClientRect();
    const at = document.elementFromPoint(left + 40, Math.min(innerHeight, bottom) - 40);
    return Number(at?.closest("tr[aria-rowindex]")?.getAttribute("aria-rowindex") ?? 0);
  })()`);

withBrowser.test(
  "only visible rows of 5,000 shards are drawn; wheel, keys and filter reach the rest",
  async (t, { browser }) => {
    const large = await openLargeCluster();
    t.teardown(() => large.dashboard.close());
    await using tab = await openTab(browser, large.dashboard.url);
    const { page } = tab;
    await page.waitForSelector("tbody th a");
    await page.click('nav a[href^="#/plan/"]');
    t.true(await inView(page, 0));
    t.is(await page.getAttribute(`${list} table`, "aria-rowcount"), String(largeTables + 1));
    t.true((await drawn(page)) <= drawnMax, `${await drawn(page)} rows`);
    const last = largeTables - 1;
    // Keys, once the list has the focus, as after Tab.
    await page.focus(list);
    await page.keyboard.press("End");
    t.true(await inView(page, last), "End");
    await page.keyboard.press("Home");
    t.true(await inView(page, 0), "Home");
    for (let times = 0; (await rowInSight(page)) < 60; times++) {
      if (times > 200) return t.fail("PageDown came to no row");
      await page.keyboard.press("PageDown");
      await page.waitForTimeout(50);
    }
    t.true((await drawn(page)) <= drawnMax, `${await drawn(page)} rows`);
    // The wheel scrolls to the middle: no gap is visible.
    await page.evaluate(`document.querySelector('${list}').scrollTop = 0`);
    await page.hover(list);
    await page.mouse.wheel(0, 80_000);
    for (let times = 0; (await rowInSight(page)) < 1000; times++) {
      if (times > 200) return t.fail("the wheel came to no row");
      await page.waitForTimeout(50);
    }
    // The filter, from the middle: the list starts again at its top.
    await page.fill('input[type="search"]', "TABLE_4998");
    await page.waitForSelector(`${list} td:text-is("table_4998")`);
    t.is(await drawn(page), 1);
    await page.waitForSelector('[role="status"]:text("1 of 5,000")');
    await page.fill('input[type="search"]', "");
    await page.waitForSelector(`${list} table[aria-rowcount="${largeTables + 1}"]`);
    t.true((await drawn(page)) > 1);
    t.deepEqual(tab.problems, []);
  },
  testAll,
);

withBrowser.test(
  "a tree of 128 devices is drawn in pieces, and the keyboard reaches its last line at once",
  async (t, { browser }) => {
    const large = await openLargeCluster();
    t.teardown(() => large.dashboard.close());
    await using tab = await openTab(browser, large.dashboard.url);
    const { page } = tab;
    await page.waitForSelector("tbody th a");
    await page.click('nav a[href="#/tree"]');
    await page.focus('[role="treeitem"]');
    await page.keyboard.press("End");
    const last = `[role="treeitem"][data-actor="device:${largeDevices - 1}"]`;
    await page.waitForSelector(`${last}:focus`);
    await page.keyboard.press("Home");
    await page.waitForSelector('[role="treeitem"][data-key^="process"]:focus');
    const devices = page.locator('[role="treeitem"][data-actor^="device:"]');
    await page.waitForSelector(last);
    t.is(await devices.count(), largeDevices);
    t.deepEqual(tab.problems, []);
  },
);
