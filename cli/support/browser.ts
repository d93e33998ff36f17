// Finds a browser on this machine that runs headless, to take pictures of pages.

import { accessSync, constants } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/** Flags that confine the browser to the page: no background requests, no first-run prompts. */
export const browserFlags: readonly string[] = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--hide-scrollbars",
];

/** The path of Chromium or Chrome, `OSIRIS_BROWSER` first; undefined: there is none. */
export function browserPath(environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const { OSIRIS_BROWSER: named, PATH = "" } = environment;
  if (named !== undefined && named !== "") return isProgram(named) ? named : undefined;
  const folders = PATH.split(delimiter).filter(isAbsolute);
  return folders
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find((path) => isProgram(path));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
