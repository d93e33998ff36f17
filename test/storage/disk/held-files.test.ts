// Files that stay open between reads.

import test from "ava";
import type { Disk } from "../../../src/ports/disk.ts";
import { SimulatedDisk } from "../../../src/ports/simulated-disk.ts";
import { filesOf, holdFiles } from "../../../storage/disk/held-files.ts";

test("a file is opened once for many reads, closed when others are read, and never in use", (t) => {
  const inner = new SimulatedDisk();
  const paths = ["/a", "/b", "/c"];
  for (const path of paths) inner.open(path, "write").close();
  const calls: string[] = [];
  const disk: Disk = Object.assign(Object.create(inner), {
    exists: (path: string) => inner.exists(path),
    open(path: string, mode: "read") {
      calls.push(`open ${path}`);
      const file = inner.open(path, mode);
      const close = () => {
        calls.push(`close ${path}`);
        file.close();
      };
      return { ...file, close };
    },
  });
  const files = holdFiles(filesOf(disk), 1);
  const lend = (path: string) => {
    const file = files.open(path);
    if (file === undefined) throw new Error(`${path} is not there`);
    return file;
  };
  const a = lend("/a");
  files.release(lend("/a"));
  files.release(lend("/b"));
  t.deepEqual(calls.splice(0), ["open /a", "open /b", "close /b"], "a is still lent");
  a.size();
  files.release(a);
  files.release(lend("/a"));
  t.deepEqual(calls.splice(0), []);
  files.release(lend("/c"));
  t.deepEqual(calls.splice(0), ["open /c", "close /a"]);
  t.is(files.open("/none"), undefined);
  files.close();
  t.deepEqual(calls, ["close /c"]);
});
