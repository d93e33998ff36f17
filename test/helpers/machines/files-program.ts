// A web server of a data set, on a machine of a test: Parquet files of clicks, which are the same
// on each start, with ranges and tags. It counts the bytes that it has sent of each file, and
// prints its line once it listens: files-program.js FILES ROWS PORT.

import { createServer } from "node:http";
import { clickFile } from "./click-files.ts";

const [files = 0, rows = 0, port = 0] = process.argv.slice(2).map(Number);

const contents = Array.from({ length: files }, (_, file) => clickFile(file, rows));
const sent = contents.map(() => 0);

const server = createServer(({ url = "", headers }, response) => {
  if (url === "/sent") return void response.end(JSON.stringify(sent));
  const file = Number(/^\/part-(\d+)\.parquet$/.exec(url)?.[1]);
  const content = contents[file];
  if (content === undefined) return void response.writeHead(404).end();
  const [, from = "0", to = `${content.length - 1}`] =
    /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? "") ?? [];
  const bytes = content.subarray(Number(from), Number(to) + 1);
  sent[file] = (sent[file] ?? 0) + bytes.length;
  const last = Number(from) + bytes.length - 1;
  response
    .writeHead(206, {
      ...{ etag: `"${file}-${rows}"`, "content-length": bytes.length },
      "content-range": `bytes ${from}-${last}/${content.length}`,
    })
    .end(bytes);
});
server.listen(port, "0.0.0.0", () => process.stdout.write("listening\n"));
